#!/usr/bin/env python3
"""What a report costs whose sidecars are behind a web server: nginx on this machine.

Usage: remote.py [--write ROOT] FETCHED WORK COVSPLIT      run by remote.sh

The images are git and 17 of its commands, by programs.py, in WORK. The same report is made with the store's directory, with its
URL and an empty cache, and with a cache that has all, in turns; and with an empty cache once more, through a proxy that takes
50 milliseconds for each request (tests/support/web_server.py). Costs are the best of some runs. That the reports are equal
is checked.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import programs
import shown
from builds import TOOLS, run_image
from large import best_of, table

RUNS = 9
DELAY = "0.05"  # seconds
START_SECONDS = 10
SERVER = pathlib.Path(__file__).resolve().parent.parent / "support/web_server.py"
NGINX = """daemon off;
pid nginx.pid;
events {{}}
http {{
    access_log off;
    server {{ listen 127.0.0.1:{port}; root {directory}; }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start(place, command, port_of):
    """A server, which ends with this program; gives its port, once it answers there."""
    with open(place / "errors", "w") as errors:
        server = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], cwd=place, stderr=errors)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        port = port_of()
        if port and answers(port):
            return port
        time.sleep(0.05)
    raise SystemExit(f"{command[0]} does not start: {(place / 'errors').read_text()}")


def start_nginx(place, directory):
    """One process, so that it ends at once."""
    port = free_port()
    text = "master_process off;\n" + NGINX.format(port=port, directory=directory)
    (place / "nginx.conf").write_text(text)
    return start(place, ["nginx", "-p", place, "-e", "stderr", "-c", "nginx.conf"], lambda: port)


def start_slow_proxy(place):
    file = place / "port"
    (place / "faults").write_text(f"* all delay {DELAY}\n")
    return start(place, [sys.executable, "-B", SERVER, place, place],
                 lambda: file.exists() and int(file.read_text()))


class Bench:
    def __init__(self, fetched, work, covsplit):
        self.covsplit = covsplit
        self.images = sorted(programs.make(fetched, work, "git", 1)[0].iterdir())
        self.work = work / "git/remote"
        shutil.rmtree(self.work, ignore_errors=True)
        for name in ("profiles", "split", "web", "proxy", "cache"):
            (self.work / name).mkdir(parents=True)
        self.store, self.cache = self.work / "web/store", self.work / "cache"
        for image in self.images:
            split = self.work / "split" / image.name
            subprocess.run([covsplit, "split", "--store", self.store, "-o", split, image], check=True)
            run_image(split, self.work / "profiles" / f"{image.name}.profraw", self.work)
        port = start_nginx(self.work, self.work / "web")
        self.url = f"http://127.0.0.1:{port}/store"
        self.proxy = f"http://127.0.0.1:{start_slow_proxy(self.work / 'proxy')}"

    def command(self, store, report="report"):
        return [self.covsplit, "report", "--store", store, "--llvm-cov", TOOLS / "llvm-cov", "--llvm-profdata",
                TOOLS / "llvm-profdata", "-o", report, "profiles"]

    def forget(self):
        shutil.rmtree(self.cache)
        self.cache.mkdir()

    def measure(self):
        """The rows; each is compared with the first one."""
        os.environ["COVSPLIT_CACHE"] = str(self.cache)
        rows = {"the store's directory": (self.store, False, None), "its URL, empty cache": (self.url, True, None),
                "its URL, with a cache": (self.url, False, None),
                "its URL, empty cache, 50 ms for each request": (self.url, True, self.proxy),
                "its URL, with a cache, 50 ms for each request": (self.url, False, self.proxy)}
        best, first = dict.fromkeys(rows), None
        for _ in range(RUNS):
            for label, (store, forgets, proxy) in rows.items():
                if forgets:
                    self.forget()
                os.environ.pop("http_proxy", None)
                if proxy:
                    os.environ["http_proxy"] = proxy
                best[label] = best_of(best[label], self.work, self.command(store))
                report = (self.work / "report").read_text()
                first = first or report
                if report != first or "TOTAL" not in report:
                    raise SystemExit(f"{label}: the report is another one")
        directory = best["the store's directory"][0]
        return [[label, f"{clock:.3f}", f"{clock / directory:.2f}", f"{processor:.2f}", f"{memory:.0f}"]
                for label, (clock, processor, memory) in best.items()]


def main():
    words, root = sys.argv[1:], None
    if words[:1] == ["--write"]:
        root = pathlib.Path(words[1])
        del words[:2]
    fetched, work, covsplit = (pathlib.Path(word).resolve() for word in words)
    bench = Bench(fetched, work, covsplit)
    text = table([f"report of {len(bench.images)} images from", "seconds", "ratio", "processor seconds",
                  "memory, MB"], bench.measure())
    print(text, end="")
    if root:
        page = root / "docs/benchmarks.md"
        before, _, after = shown.block(page.read_text(), "remote", "remote.sh")
        page.write_text(before + text + after)


if __name__ == "__main__":
    main()
