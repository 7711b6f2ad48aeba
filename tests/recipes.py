#!/usr/bin/env python3
"""Walks docs/recipes.md: does what each recipe says, as it is written, in an empty directory.

Usage: recipes.py BUILD quick|slow|all [RECIPE...]

BUILD is installed in a directory of its own, which stands for /usr/local. A recipe is the text below a
heading (##). A block without a language has commands; any other block is a file, named by the last `name`
in the paragraph before it. The blocks before the first recipe, which make the sources, are run for each.

GitHub's runners are not available here: what the files say is done without them. Bazel fetches rules and tools
when it is first run; without a network, small ones below stand for these. Buckets are those of s3rver on this machine (fetch.sh has put
it into COVSPLIT_TEST_CACHE, by default BUILD/fetched), and servers get ports that are free. A recipe passes if all its commands succeed
without warnings, its sidecars exist, and each report shows that the program was run.

A recipe that packs objects is walked once more without that. All that it compiles must be packed the
first time only, and the reports must have the same totals.
"""

import ast
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/recipes.md"
LLVM = 19
SLOW = ("autotools", "libtool", "cargo", "Bazel")
# make splits paths at blanks, and so do the tools built on it.
NO_BLANKS = ("Make", "Make without a change", "autotools", "libtool", "Builds that record their compiler", "Bazel")
# Tools that Debian may lack, at least in a new enough version.
MAY_BE_MISSING = {"cargo": "cargo", "Bazel": "bazel"}
# The number of sidecars, if not one: libraries have one, and so does each program of cargo's tests.
# What tools link only as a test has none. Two are copied as a whole store, and one of them alone.
SIDECARS = {"A bucket": 3, "All builds, in little room": 5, "Bazel": 0, "Built elsewhere": 2, "CMake": 2, "CMake without a change": 2, "Meson": 2, "libtool": 2, "cargo": 4}

# What packs objects in the recipes, and what stands there without.
PACKING = (("$covsplit compile -- ", ""), ("covsplit compile -- ", ""), ("$(COVSPLIT_COMPILE) ", ""),
           ("covsplit_enable()", "covsplit_enable(NO_PACK)"), ("covsplit;compile;--;ccache", "ccache"),
           ('    "-DCMAKE_C_COMPILER_LAUNCHER=covsplit;compile;--" \\\n', ""),
           ('rustc-wrapper = "/usr/local/share/covsplit/covsplit-compile"\n', ""))

# What Bazel 4 fetches, in a few lines: rules that are built in, and the tool that collects reports.
NATIVE = ("cc_binary", "cc_import", "cc_library", "cc_test", "cc_toolchain", "cc_toolchain_suite",
          "java_binary", "java_import", "java_library", "java_runtime", "java_toolchain")
BAZEL_REPOSITORIES = {
    "rules_cc/cc/BUILD": "", "rules_java/java/BUILD": "",
    "rules_cc/cc/defs.bzl": "".join(f"{rule} = native.{rule}\n" for rule in NATIVE),
    "rules_java/java/defs.bzl": "".join(f"{rule} = native.{rule}\n" for rule in NATIVE),
    "remote_coverage_tools/BUILD": """package(default_visibility = ["//visibility:public"])
sh_binary(name = "lcov_merger", srcs = ["merge.sh"])
sh_binary(name = "coverage_report_generator", srcs = ["merge.sh"])
""",
    "remote_coverage_tools/merge.sh": """#!/bin/sh
for word in "$@"; do
    case $word in
    --coverage_dir=*) directory=${word#*=} ;;
    --output_file=*) output=${word#*=} ;;
    --reports_file=*) reports=${word#*=} ;;
    esac
done
if [ -n "${directory-}" ]; then
    find "$directory" -name '*.dat' -exec cat {} + >"$output"
else
    xargs cat <"$reports" >"$output"
fi
""",
}

# Addresses in the page and in the examples; free ports of this machine take their place.
WEB_SERVER = "127.0.0.1:8080"
DEBUGINFOD_PORT = "8002"
BUCKET = "https://coverage.s3.eu-central-1.amazonaws.com"

# rustc for grcov, which asks it where LLVM's tools are.
RUSTC = """#!/bin/sh
case $* in
"--print sysroot") echo "${0%/*}/sysroot" ;;
*) exec rustc "$@" ;;
esac
"""


def llvm_tools(version):
    return f"/usr/lib/llvm-{version}/bin"


class Failure(Exception):
    pass


def blocks_of(text):
    """The blocks: (language, text, what is before it)."""
    for match in re.finditer(r"(.*?)^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        yield match[2], match[3], match[1]


def recipes():
    """The preparation, and (name, text) for each recipe."""
    head, *rest = re.split(r"^## ", PAGE.read_text(), flags=re.M)
    return head, [part.split("\n", 1) for part in rest]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


class Ground:
    """What all walks have in common: where the build is installed, and where servers are."""

    def __init__(self, build, scratch):
        self.scratch, self.prefix = scratch, scratch / "usr-local"
        self.cache = os.environ.get("COVSPLIT_TEST_CACHE", f"{build}/fetched")
        self.web_server = f"127.0.0.1:{free_port()}"
        self.bucket_port, self.debuginfod_port = free_port(), free_port()
        subprocess.run(["cmake", "--install", build, "--prefix", self.prefix], check=True, stdout=subprocess.DEVNULL)
        nginx = self.prefix / "share/doc/covsplit/examples/nginx.conf"
        nginx.write_text(self.change(nginx.read_text()))

    def change(self, text):
        """Text of the page, for this machine."""
        return (text.replace("/usr/local/", f"{self.prefix}/").replace(WEB_SERVER, self.web_server)
                .replace(DEBUGINFOD_PORT, self.debuginfod_port).replace(BUCKET, f"http://127.0.0.1:{self.bucket_port}/coverage"))


class Walk:
    def __init__(self, ground, place):
        self.ground, self.place, self.servers = ground, place, []
        self.environment = {
            **os.environ,
            "COVSPLIT_CACHE": f"{place.parent}/cache",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "PATH": f"{ground.prefix}/bin:{llvm_tools(LLVM)}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "DEBUGINFOD_CACHE_PATH": f"{place.parent}/debug-files",
            "CCACHE_DIR": f"{place}/.ccache",
            "GITHUB_STEP_SUMMARY": f"{place}/summary",
            "GITHUB_BASE_REF": "main",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "origin/main",
        }
        self.totals = []

    def run(self, commands, environment=None):
        print(commands, end="" if commands.endswith("\n") else "\n", flush=True)
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", commands], cwd=self.place,
            env={**self.environment, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout, flush=True)
        if done.returncode != 0:
            raise Failure(f"exit status {done.returncode}")
        # rustc shows the linker's messages in its own form. A test program without tests has no records.
        if re.search(r"covsplit: (warning|error)|linker stderr: (?!.*has no records)", done.stdout):
            raise Failure("covsplit has something to say")
        for total in re.findall(r"^TOTAL.*$", done.stdout, re.M):
            self.totals.append(total)
            if float(re.search(r"([0-9.]+)%", total)[1]) == 0:
                raise Failure("the report has seen nothing run")
        if "No lines with coverage information" in done.stdout:
            raise Failure("diff-cover has found nothing of the report in the change")
        if re.search(r"covsplit report .*profiles$", commands, re.M) and not re.search(
                "--format", commands) and "TOTAL" not in done.stdout:
            raise Failure("there is no report")

    def output_of(self, command):
        return subprocess.run(command.split(), env=self.environment, check=True, stdout=subprocess.PIPE,
                              text=True).stdout

    def write(self, name, text):
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def follow(self, text):
        for language, block, before in blocks_of(text):
            block = self.ground.change(block)
            if block.startswith("debuginfod "):
                self.serve_debuginfod(block)
                continue
            if not language:
                self.run(block)
                continue
            paragraph = before.rstrip().rsplit("\n\n", 1)[-1]
            name = re.findall(r"`([^`\n]+)`", paragraph)[-1]
            self.write(name, block)
            if name.startswith(".github/"):
                self.github(block)
            elif name == ".gitlab-ci.yml":
                self.gitlab(block)

    def prepare_bazel(self):
        """Repositories in place of what Bazel would fetch, in its configuration."""
        root = self.place.parent / "bazel"
        lines = [f"startup --output_user_root={root}/output --max_idle_secs=60"]
        for path, text in BAZEL_REPOSITORIES.items():
            name = path.split("/")[0]
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / "WORKSPACE").touch()
            (root / name / "BUILD").touch()
            (root / path).write_text(text)
            (root / path).chmod(0o755)
            lines.append(f"build --override_repository={name}={root / name}")
        self.write(".bazelrc", "\n".join(dict.fromkeys(lines)) + "\n")

    def check_bazel(self):
        """The report of each test is that of the unsplit program."""
        self.run("clang -fprofile-instr-generate -fcoverage-mapping -o unsplit app.c shape.c\n"
                 "LLVM_PROFILE_FILE=unsplit.profraw ./unsplit hello pentagon\n"
                 "llvm-profdata merge -o unsplit.profdata unsplit.profraw\n"
                 "llvm-cov export --format lcov -instr-profile=unsplit.profdata unsplit >unsplit.info\n"
                 "bazel shutdown\n")
        counts = [re.findall(r"^(?:SF:(?:.*/)?|DA:)(.*)", (self.place / report).read_text(), re.M) for report in (
            "unsplit.info", "bazel-testlogs/app_test/coverage.dat", "bazel-testlogs/split_test/coverage.dat")]
        if not counts[0] or counts[0] != counts[1] or counts[0] != counts[2]:
            raise Failure(f"other counts by Bazel: {counts}")

    def prepare_grcov(self):
        """A rustc that has LLVM's tools for grcov, as with rustup's component."""
        tools = self.place.parent / "grcov"
        host = re.search(r"host: (.*)", self.output_of("rustc -vV"))[1]
        (tools / "sysroot/lib/rustlib" / host).mkdir(parents=True)
        (tools / "sysroot/lib/rustlib" / host / "bin").symlink_to(self.environment["PATH"].split(":")[1])
        (tools / "rustc").write_text(RUSTC)
        (tools / "rustc").chmod(0o755)
        self.stand_in("grcov", f"RUSTC='{tools}/rustc' exec {shutil.which('grcov')} \"$@\"")

    def github(self, text):
        """The steps that run something, but for what installs packages."""
        ran = 0
        for step in re.split(r"^      - ", text, flags=re.M)[1:]:
            command = re.search(r"^        run: (?:\|\n((?:          .*\n)+)|(.*)\n)", step, re.M)
            if command is None or "sudo " in step:
                continue
            environment = dict(re.findall(r"^          (\w+): (.*)$", step, re.M))
            self.run(re.sub("^          ", "", command[1], flags=re.M) if command[1] else command[2],
                     environment)
            ran += 1
        if ran != text.count(" run: ") - text.count("sudo apt-get update"):
            raise Failure(f"{ran} steps were run")
        summary = (self.place / "summary").read_text()
        if not re.search(r"^(\| \*\*total\*\* \||- \*\*Coverage\*\*:) [1-9]", summary, re.M):
            raise Failure(f"the summary is {summary}")

    def gitlab(self, text):
        """The script, and whether the expression, if there is one, finds the percentage of lines in what it
        prints."""
        script = re.search(r"^  script:\n((?:    - .*\n)+)", text, re.M)[1]
        expression = re.search(r"^  coverage: '/(.*)/'$", text, re.M)
        self.run(re.sub("^    - ", "", script, flags=re.M))
        if expression is not None:
            found = re.search(expression[1], self.totals[-1])
            numbers = re.findall(r"[0-9.]+%", self.totals[-1])
            if found is None or found[1] + "%" != numbers[2]:
                raise Failure(f"the percentage of lines is not in {self.totals[-1]}")
        report = (self.place / "coverage.xml").read_text()
        if float(re.search(r'line-rate="([0-9.]+)"', report)[1]) == 0:
            raise Failure("nothing is covered in coverage.xml")

    def prepare_nginx(self):
        """nginx, which a user's PATH may lack. As root it has root's files to serve, which its own user cannot read."""
        user = '-g "user root;"' if os.getuid() == 0 else ""
        self.stand_in("nginx", f'exec /usr/sbin/nginx "$@" {user}')

    def prepare_bucket(self):
        """s3rver with an empty bucket, and rclone's variables for it in place of those of a workflow's secrets."""
        port, buckets = self.ground.bucket_port, self.place.parent / "buckets"
        buckets.mkdir()
        self.servers.append(subprocess.Popen(
            ["node", f"{self.ground.cache}/s3rver/node_modules/s3rver/bin/s3rver.js", "--silent", "--directory", buckets,
             "--address", "127.0.0.1", "--port", port, "--configure-bucket", "coverage"], stdout=subprocess.DEVNULL))
        for name, value in (("TYPE", "s3"), ("PROVIDER", "Other"), ("ENDPOINT", f"http://127.0.0.1:{port}"),
                            ("ACCESS_KEY_ID", "S3RVER"), ("SECRET_ACCESS_KEY", "S3RVER")):
            self.environment[f"RCLONE_CONFIG_BUCKET_{name}"] = value
        self.environment["RCLONE_CONFIG"] = "/dev/null"
        self.environment.pop("AWS_CA_BUNDLE", None)  # Debian's rclone cannot read it

    def serve_debuginfod(self, command):
        """The server of a block, in the background, once it has read its files."""
        print(command, flush=True)
        self.servers.append(subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=self.place, stderr=subprocess.DEVNULL,
                                             env={**self.environment, "DEBUGINFOD_URLS": ""}))
        for _ in range(600):
            time.sleep(0.1)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.ground.debuginfod_port}/metrics") as answer:
                    state = answer.read().decode()
                if "scanned_files_total" in state and 'thread_busy{role="scan"} 0\n' in state:
                    return
            except OSError:
                pass  # it does not listen yet
        raise Failure("debuginfod is not ready")

    def stand_in(self, name, commands):
        """A program that comes first in PATH."""
        wrapper = self.place.parent / "bin" / name
        wrapper.write_text(f"#!/bin/sh\n{commands}\n")
        wrapper.chmod(0o755)

    def end_servers(self):
        for server in self.servers:
            server.kill()
        if (self.place / "nginx.pid").exists():  # the recipe has failed
            os.kill(int((self.place / "nginx.pid").read_text()), signal.SIGTERM)


def without_packing(text):
    for packing, without in PACKING:
        text = text.replace(packing, without)
    return text


def objects_with(place, section):
    """The objects, archives and crates that have a section with coverage mapping."""
    objects = [path for path in place.rglob("*") if path.suffix in (".o", ".a", ".rlib")
               and "incremental" not in path.parts]  # rustc's, of the program's own crates
    return [str(path) for path in objects if section in path.read_bytes()]


def walk(ground, where, name, text, preparation):
    """Walks a recipe in a new directory below `where`. Returns that, and the totals of all reports."""
    place = ground.scratch / where / name.replace(" ", "-") / ("project" if name in NO_BLANKS else "my project")
    place.mkdir(parents=True)
    stand_ins = place.parent / "bin"
    stand_ins.mkdir()
    walker = Walk(ground, place)
    if name == "cargo":  # its LLVM may be newer
        major = int(re.search(r"LLVM version: (\d+)", walker.output_of("rustc -vV"))[1])
        if major > LLVM:
            walker.environment["PATH"] = walker.environment["PATH"].replace(llvm_tools(LLVM), llvm_tools(major))
        walker.prepare_grcov()
    elif name == "Bazel":
        walker.prepare_bazel()
    if "nginx " in text:
        walker.prepare_nginx()
    if "bucket:" in text:
        walker.prepare_bucket()
    walker.environment["PATH"] = f"{stand_ins}:{walker.environment['PATH']}"
    try:
        walker.follow(preparation)
        walker.follow(text)
    finally:
        walker.end_servers()
    if name == "Bazel":
        walker.check_bazel()
    sidecars = [str(path) for path in place.rglob("*.covsplit")]
    if len(sidecars) != SIDECARS.get(name, 1):
        raise Failure(f"the sidecars are {sidecars}")
    return place, walker.totals


def walk_both(ground, name, text, preparation):
    """Walks a recipe; if it packs objects, once more without that, and compares."""
    place, totals = walk(ground, "as-written", name, text, preparation)
    plain = without_packing(text)
    if plain == text:
        return
    ordinary = objects_with(place, b"__llvm_covfun\0")
    if ordinary or not objects_with(place, b"__llvm_covmap\0"):
        raise Failure(f"not packed: {ordinary}")
    place, plain_totals = walk(ground, "without-packing", name, plain, preparation)
    if not objects_with(place, b"__llvm_covfun\0"):
        raise Failure("packed in any case")
    if totals != plain_totals:
        raise Failure(f"other totals without packing: {totals}, {plain_totals}")


def main():
    build, kind, *chosen = sys.argv[1:]
    preparation, all_recipes = recipes()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="covsplit-recipes-"))
    ground = Ground(build, scratch)
    count = 0
    for rules in (PAGE.parent.parent / "share").glob("*.bzl"):
        ast.parse(rules.read_text())  # Starlark has no syntax that Python lacks
    for name, text in all_recipes:
        is_wanted = name in chosen if chosen else kind == "all" or (name in SLOW) == (kind == "slow")
        if not is_wanted:
            continue
        print(f"\n==== {name}", flush=True)
        tool = MAY_BE_MISSING.get(name)
        if tool is not None and shutil.which(tool) is None:
            print(f"there is no {tool} here: left out")
            continue
        try:
            walk_both(ground, name, text, preparation)
        except Failure as failure:
            sys.exit(f"{name}: {failure} (the files are in {scratch})")
        count += 1
    print(f"\n{count} recipes, all as written")
    if os.environ.get("COVSPLIT_TEST_KEEP") != "1":
        shutil.rmtree(scratch)
    if count < (len(chosen) or 2):
        sys.exit("these are too few")


main()
