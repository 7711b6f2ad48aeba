"""How lit plays a scene: see lit.cfg.py. A module of its own, since lit sends it to other processes."""
import os
import shutil
import tempfile

import lit.formats
import lit.Test
import lit.util

LINES_SHOWN = 60
# lit's own processes ignore the interrupt, which scenes send to commands.
PLAYER = ["timeout", "--kill-after=10", "900", "env", "--default-signal"]
ROOM = 4 << 30
UNSUPPORTED = 77  # the status by which a scene says that it cannot be played here


def place():
    """Where scenes are played: in memory if there is room, since much of what they do is small files that are synced."""
    memory = "/dev/shm"
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        return None
    status = os.statvfs(memory)
    return memory if status.f_bavail * status.f_frsize >= ROOM else None


class Scene(lit.formats.FileBasedTest):
    def execute(self, test, lit_config):
        directory = tempfile.mkdtemp(prefix="scene-", dir=place())
        os.chmod(directory, 0o755)  # others must be able to get in, in scenes about permissions
        work = os.path.join(directory, "work")
        os.mkdir(work)
        environment = dict(test.config.environment, SCENE=test.getSourcePath(), kept=directory)
        out, err, status = lit.util.executeCommand(
            PLAYER + ["/bin/bash", os.path.join(test.suite.source_root, "scene.sh")], cwd=work, env=environment,
            input="", timeout=lit_config.maxIndividualTestTime)
        if status == UNSUPPORTED:
            code = lit.Test.UNSUPPORTED
        else:
            code = lit.Test.PASS if status == 0 else lit.Test.FAIL
        if code is not lit.Test.FAIL and "COVSPLIT_TEST_KEEP" not in os.environ:
            shutil.rmtree(directory)
        said = (out + err).splitlines()[-LINES_SHOWN:]
        return code, "\n".join([f"exit {status} in {work}", *said, ""])
