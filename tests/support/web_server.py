"""A web server of tests, which does wrong what its rows of faults say.

Usage: web_server.py DIRECTORY PLACE [--certificate PEM] [--client-authority PEM]

Serves the files in DIRECTORY on a free port of 127.0.0.1, with threads and connections that stay. A request for a whole URL
is one to a proxy, and is passed on. In the directory PLACE, server and test tell each other:

port    by the server, once it listens
log     by the server, before each answer: the number of the connection, how many requests are being answered with this one,
        the path and all headers "Name: value", separated by tabs
faults  by the test: rows "PATTERN COUNT FAULT [VALUE]" for the paths that match, but only for so many requests ("all": for
        each), read again for each request; when the text has changed, the counts begin anew. Of the rows that apply, the first
        one that answers is what the client gets. `fault_NAME` below are the faults.

It does not end by itself: a test starts it by `setpriv --pdeathsig KILL`.
"""
import argparse
import fnmatch
import gzip
import http.client
import http.server
import pathlib
import socketserver
import ssl
import threading
import time
import urllib.parse

GIB = 1 << 30
ZEROS = bytes(1 << 16)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, directory, place, tls):
        self.directory, self.place, self.tls = directory, place, tls
        self.lock = threading.Lock()
        self.connections = self.answering = 0
        self.faults, self.counts = "", []
        super().__init__(("127.0.0.1", 0), Handler)

    def get_request(self):
        connection, address = super().get_request()
        if self.tls:  # the handshake is left to the thread, which reads first
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, *words):
        """Clients go away, and do not like certificates."""

    def new_connection(self):
        with self.lock:
            self.connections += 1
            return self.connections

    def begin(self, number, path, headers):
        """Notes a request, and gives the faults that apply to it."""
        with self.lock:
            self.answering += 1
            with open(self.place / "log", "a") as log:
                print(number, self.answering, path, *map(": ".join, headers), sep="\t", file=log)
            return self.faults_of(path)

    def end(self):
        with self.lock:
            self.answering -= 1

    def faults_of(self, path):
        file = self.place / "faults"
        text = file.read_text() if file.exists() else ""
        rows = [line.split(maxsplit=3) for line in text.splitlines() if line[0] != "#"]
        if text != self.faults:
            self.faults, self.counts = text, [0] * len(rows)
        found = []
        for index, (pattern, count, fault, *value) in enumerate(rows):
            if fnmatch.fnmatch(path, pattern) and (count == "all" or self.counts[index] < int(count)):
                self.counts[index] += 1
                found.append((fault, *value))
        return found


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.number = self.server.new_connection()

    def log_message(self, *words):
        """Our own log says more."""

    def do_GET(self):
        faults = self.server.begin(self.number, self.path, self.headers.items())
        try:
            if not any(getattr(self, "fault_" + fault)(*value) for fault, *value in faults):
                self.answer()
        finally:
            self.server.end()

    def answer(self):
        if self.path.startswith("http://"):
            return self.pass_on()
        contents = self.contents()
        return self.fault_status("404") if contents is None else self.send(200, contents)

    def pass_on(self):
        url = urllib.parse.urlsplit(self.path)
        headers = {name: value for name, value in self.headers.items() if not name.startswith("Proxy-")}
        connection = http.client.HTTPConnection(url.netloc)
        connection.request("GET", url.path, headers=headers)
        response = connection.getresponse()
        self.send(response.status, response.read(), *[
            pair for pair in response.getheaders() if pair[0] in ("Content-Encoding", "Location", "Retry-After")])
        connection.close()

    def contents(self):
        """Those of the file; None: there is none."""
        path = self.server.directory / urllib.parse.unquote(self.path.partition("?")[0]).lstrip("/")
        return path.read_bytes() if path.is_file() else None

    def send_head(self, status, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def send(self, status, body, *headers):
        self.send_head(status, ("Content-Length", len(body)), *headers)
        self.wfile.write(body)
        return True

    def close(self):
        self.close_connection = True
        return True

    def wait_for_the_end(self):
        """Until the client goes away."""
        while self.connection.recv(1):
            pass
        return self.close()

    def send_half(self):
        """The head for all of the file, and half of it."""
        contents = self.contents()
        self.send_head(200, ("Content-Length", len(contents)))
        self.wfile.write(contents[:len(contents) // 2])

    def send_chunk(self, data):
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    # ---- faults: true where the client has its answer ----

    fault_close, fault_silence = close, wait_for_the_end

    def fault_delay(self, seconds):
        time.sleep(float(seconds))

    def fault_needs(self, header):
        """A header "Name: value"."""
        name, value = header.split(": ", 1)
        return self.headers.get(name) != value and self.fault_status("401 WWW-Authenticate: Basic")

    def fault_stall(self):
        self.send_half()
        return self.wait_for_the_end()

    def fault_drip(self, seconds):
        """A byte at a time."""
        contents = self.contents()
        self.send_head(200, ("Content-Length", len(contents)))
        for byte in contents:
            self.wfile.write(bytes([byte]))
            time.sleep(float(seconds))
        return True

    def fault_cut(self):
        self.send_half()
        return self.close()

    def fault_status(self, value):
        """STATUS [HEADER: VALUE]"""
        status, _, header = value.partition(" ")
        return self.send(int(status), b"no\n", *([header.split(": ", 1)] if header else []))

    def fault_redirect(self, url):
        """To a URL, in which {path} is the path."""
        return self.send(302, b"", ("Location", url.replace("{path}", self.path)))

    def fault_header(self, size):
        """One that is so long."""
        self.send_head(200, ("X-Long", "x" * int(size)), ("Content-Length", 0))
        return self.close()

    def fault_html(self):
        return self.send(200, b"<html><body>Please log in</body></html>\n", ("Content-Type", "text/html"))

    def fault_file(self, path):
        """Another file's bytes."""
        return self.send(200, pathlib.Path(path).read_bytes())

    def fault_gzip(self):
        return self.send(200, gzip.compress(self.contents()), ("Content-Encoding", "gzip"))

    def fault_chunked(self):
        """No fault: the contents, without a word on their size."""
        self.send_head(200, ("Transfer-Encoding", "chunked"))
        for chunk in (self.contents(), b""):
            self.send_chunk(chunk)
        return True

    def fault_unsized(self, part="1"):
        """That much of the contents, and their size is where the connection ends."""
        contents = self.contents()
        self.send_head(200, ("Connection", "close"))
        self.wfile.write(contents[:int(len(contents) * float(part))])
        return self.close()

    def fault_endless(self):
        self.send_head(200, ("Transfer-Encoding", "chunked"))
        while True:
            self.send_chunk(ZEROS)

    def fault_huge(self, size=300 * GIB):
        self.send_head(200, ("Content-Length", size))
        while True:
            self.wfile.write(ZEROS)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("place", type=pathlib.Path)
    parser.add_argument("--certificate")
    parser.add_argument("--client-authority")
    words = parser.parse_args()
    tls = None
    if words.certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(words.certificate)
        if words.client_authority:
            tls.verify_mode = ssl.CERT_REQUIRED
            tls.load_verify_locations(words.client_authority)
    server = Server(words.directory.resolve(), words.place.resolve(), tls)
    new = server.place / "port.new"
    new.write_text(f"{server.server_address[1]}\n")
    new.rename(server.place / "port")
    server.serve_forever()


if __name__ == "__main__":
    main()
