#!/usr/bin/env python3
"""Runs the examples in share/examples: the script as it is, the Dockerfile without Docker, and the device
in QEMU.

Usage: examples.py COVSPLIT

Each stage of the Dockerfile becomes a directory, in which sh runs its RUN lines in its WORKDIR; the line
that installs packages is left out, since they are installed. Both must give the same report.

Of the device, the commands of its README are run. All must give the same report, and the README's table
of sizes must be true.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "share/examples"
LLVM = "/usr/lib/llvm-19/bin"
# Both functions of the program were called, but one branch of greet was not taken.
COVERED = "2                 0   100.00%"


def fail(message):
    raise SystemExit(f"examples: {message}")


def run(words, directory, environment, **more):
    done = subprocess.run(words, cwd=directory, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        fail(f"{words}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def check_report(text):
    total = [line for line in text.splitlines() if line.startswith("TOTAL")]
    if len(total) != 1 or COVERED not in total[0] or "75.00%" not in total[0]:
        fail(f"not the report that was expected:\n{text}")


class Stage:
    """What a stage of a Dockerfile has in it."""

    def __init__(self, root):
        self.root, self.directory, self.environment, self.entry = root, "/", {}, None
        root.mkdir()

    def path(self, name):
        return self.root / os.path.normpath(os.path.join(self.directory, name)).lstrip("/")

    def copy(self, source, target):
        """As COPY does: into a directory where the target ends in a slash, of one what is in it."""
        place = self.path(target)
        if source.is_dir():
            shutil.copytree(source, place, dirs_exist_ok=True)
        elif not target.endswith("/"):
            fail(f"COPY {target}: not known here")
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)


def follow(dockerfile, context, work, environment):
    """Its stages: by name, and the last one as ""."""
    stages, name, stage = {}, None, None
    for line in dockerfile.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            name = rest.split(" AS ")[1] if " AS " in rest else ""
            stage = stages[name] = Stage(work / f"stage-{name}")
        elif word == "WORKDIR":
            stage.directory = rest
            stage.path("").mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            source, target = rest.split()[-2:]
            origin = re.match(r"--from=(\w+) ", rest)
            stage.copy(stages[origin[1]].path(source) if origin else context / source, target)
        elif word == "ENV":
            key, _, value = rest.partition("=")
            stage.environment[key] = value
        elif word == "ENTRYPOINT":
            stage.entry = re.fullmatch(r'\["([^"]+)"\]', rest)[1]
        elif word == "RUN" and not rest.startswith("apt-get "):
            path = f"{stage.root}/usr/local/bin:{environment['PATH']}"
            run(["sh", "-ec", rest], stage.path(""), {**environment, "PATH": path})
        elif word not in ("", "#", "RUN"):
            fail(f"{dockerfile.name}: {word} is not known here")
    return stages


# What the device's README says may differ by this much: compilers change.
TOLERANCE = 0.05


def section_size(image, name, environment):
    table = run(["llvm-readelf", "-SW", image], image.parent, environment)
    return int(re.search(rf" {name} +\S+ +\S+ +\S+ +(\S+)", table)[1], 16)


def check_sizes(readme, found):
    """The table's rows, in their order."""
    table = re.findall(r"^\| ([^|]*) \| ([\d,]*) ?\| ([\d,]*) \|$", readme, re.M)
    if [row[0] for row in table] != list(found):
        fail(f"the table of sizes has the rows {[row[0] for row in table]}")
    for name, *said in table:
        for text, size in zip(said, found[name]):
            said_size = int(text.replace(",", "") or 0)
            if abs(said_size - size) > TOLERANCE * size:
                fail(f"{name}: the README says {text}, found {size}")


def run_device(work, environment):
    # The directories are those of an installed covsplit.
    source, place = EXAMPLES / "device", work / "share/doc/covsplit/examples/device"
    shutil.copytree(source, place)
    shutil.copytree(EXAMPLES.parent.parent / "device", work / "share/covsplit/device")
    readme = (source / "README.md").read_text()
    build, reports, found = place / "build", [], {}

    for number, commands in enumerate(re.findall(r"```sh\n(.*?)```", readme, re.S)):
        text = run(["sh", "-ec", commands], place, environment)
        if text.count("cooling at 24.2, target 21.5, switched 4\n") != 1:
            fail(f"what the device said:\n{text}")
        reports.append(text[text.index("\nFilename"):])
        if number == 0:
            run(["make", "build/unsplit.bin"], place, environment)
            run(["qemu-system-arm", "-M", "mps2-an385", "-nodefaults", "-display", "none",
                 "-semihosting-config", "enable=on,target=native", "-kernel", "build/unsplit.bin",
                 "-serial", "null", "-serial", "file:build/unsplit.profraw"], place, environment)
            images, counters = [build / "unsplit.elf", build / "app.elf"], "__llvm_prf_cnts"
            found = {
                "flash, up to the end of the image":
                    [image.with_suffix(".bin").stat().st_size for image in images],
                "profile of a run":
                    [image.with_suffix(".profraw").stat().st_size for image in images],
                "the same, sparse": [0, 0],
                "counters, in RAM":
                    [section_size(image, counters, environment) for image in images],
                "sidecar, on the host":
                    [0, next(place.glob("sidecars/.build-id/*/*")).stat().st_size],
            }
        elif "SPARSE" in commands:
            found["the same, sparse"][1] = (build / "app.profraw").stat().st_size
    if len(reports) != 3 or len(set(reports)) != 1:
        fail("the device's reports differ:\n" + "\n".join(reports))
    check_sizes(readme, found)


def main():
    covsplit = pathlib.Path(sys.argv[1]).resolve()
    work = pathlib.Path(tempfile.mkdtemp(prefix="covsplit-examples-"))
    environment = {"PATH": f"{covsplit.parent}:{LLVM}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                   "HOME": str(work), "LC_ALL": "C"}
    try:
        check_report(run([EXAMPLES / "ship.sh", work / "ship", "world"], work, environment))

        context = work / "context"
        context.mkdir()
        shutil.copy(EXAMPLES / "greet.c", context)
        shutil.copy(covsplit, context / "covsplit")
        stages = follow(EXAMPLES / "Dockerfile", context, work, environment)
        last = stages[""]
        if [path.name for path in last.root.iterdir()] != ["greet"]:
            fail(f"what is shipped: {list(last.root.iterdir())}")
        # The container's volume is a directory here.
        profiles = work / "profiles"
        profile = last.environment["LLVM_PROFILE_FILE"].replace("/profiles", str(profiles))
        run([str(last.root) + last.entry, "world"], work, {"LLVM_PROFILE_FILE": profile})
        shutil.copytree(stages["sidecars"].root, work / "sidecars")
        lines = re.search(r"```sh\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.S)[1]
        report = "".join(line + "\n" for line in lines.splitlines() if not line.startswith("docker "))
        check_report(run(["sh", "-ec", report], work, environment))

        run_device(work, environment)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("the examples came to their reports")


main()
