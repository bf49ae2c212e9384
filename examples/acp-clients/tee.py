"""Runs an agent and writes down every line: `>` to it, `<` from it.

    tee.py LOG COMMAND...
"""

import os
import signal
import subprocess
import sys
import threading

log = open(sys.argv[1], "ab", buffering=0)
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
lock = threading.Lock()
signal.signal(signal.SIGTERM, lambda *_: agent.terminate())


def pump(source, to, mark):
    for line in source:
        with lock:
            log.write(mark + line)
        try:
            to.write(line)
            to.flush()
        except (OSError, ValueError):
            break
    try:
        to.close()
    except OSError:
        pass


threading.Thread(target=pump, args=(sys.stdin.buffer, agent.stdin, b">"), daemon=True).start()
pump(agent.stdout, os.fdopen(os.dup(1), "wb"), b"<")
code = agent.wait()
log.close()
# The other thread waits for standard input still.
os._exit(code)
