# For the scenes of the command line.

# holds EXPRESSION...: of Python, over "shown", the JSON that covsplit printed last, and "load", which reads a file of it.
holds() {
    python3 - "$kept/out" "$@" <<'END'
import json, sys
load = lambda path: json.load(open(path))
shown = load(sys.argv[1])
for expression in sys.argv[2:]:
    assert eval(expression), f"{expression}: {json.dumps(shown, indent=1)}"
END
}

# on_terminal COMMAND...: with a terminal for its standard error; prints what came there, with ESC as ^.
on_terminal() {
    run python3 -c '
import os, pty, subprocess, sys
leader, follower = pty.openpty()
status = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stderr=follower).returncode
os.close(follower)
text = b""
try:
    while part := os.read(leader, 4096):
        text += part
except OSError: # how Linux tells that all have closed it
    pass
print(text.decode().replace("\r", "").replace("\033", "^"), end="")
sys.exit(status)' "$@"
}
