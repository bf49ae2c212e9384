"""acpx (npm), a headless ACP client, drives an agent: exec with calls and permission, a named session that is loaded again
by another process, cancel. acpx 0.1.15 has no fork.

    acpx_client.py ACPX COMMAND...
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

acpx, command = sys.argv[1], shlex.join(sys.argv[2:])


def run(cwd, *arguments, check=True):
    whole = [acpx, "--cwd", cwd, "--agent", command, "--approve-all", "--ttl", "1", *arguments]
    ended = subprocess.run(whole, capture_output=True, text=True, timeout=120)
    if check and ended.returncode != 0:
        sys.exit(f"{whole} failed: {ended.returncode}\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}")
    return ended.stdout


def changed(cwd):
    with open(os.path.join(cwd, "a.txt"), "w") as file:
        file.write("one\ntwo\n")


with tempfile.TemporaryDirectory() as cwd:
    changed(cwd)
    said = run(cwd, "--format", "json", "exec", "change two to 2")
    assert open(os.path.join(cwd, "a.txt")).read() == "one\n2\n", said
    lines = [json.loads(it) for it in said.splitlines() if it.startswith("{")]
    text = json.dumps(lines)
    for mark in ["tool_call", "agent_message_chunk", "end_turn"]:
        assert mark in text, (mark, said[-3000:])

    changed(cwd)
    run(cwd, "sessions", "new", "--name", "one")
    said = run(cwd, "prompt", "-s", "one", "change two to 2")
    assert "Done." in said, said
    time.sleep(3)  # its queue owner, and the agent with it, has ended
    said = run(cwd, "prompt", "-s", "one", "are you there?")
    assert "Here." in said, said
    run(cwd, "prompt", "-s", "one", "--no-wait", "slowly")
    time.sleep(1)
    began = time.monotonic()
    run(cwd, "cancel", "-s", "one")
    took = time.monotonic() - began
    run(cwd, "sessions", "close", "one")
    print(f"acpx: exec with calls and permission, load in another process, cancel ({took:.1f} s with the start of Node)")
