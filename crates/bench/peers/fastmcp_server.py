"""The tools of the comparison, written for FastMCP as its users write theirs: `python fastmcp_server.py FOLDER`.

With `--http` it serves over streamable HTTP on a port that the system chooses, and writes its URL to standard error.
"""

import os
import socket
import subprocess
import sys

from fastmcp import FastMCP

ROOT = sys.argv[1]
server = FastMCP("peer")


@server.tool
def read(path: str) -> str:
    """Read a file."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


@server.tool
def lines(path: str, start: int, count: int) -> str:
    """Read some lines of a file."""
    found = []
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if number >= start + count:
                break
            if number >= start:
                found.append(line)
    return "".join(found)


@server.tool
def edit(path: str, old: str, new: str) -> str:
    """Replace a text that occurs once in a file."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    if text.count(old) != 1:
        raise ValueError("the text does not occur exactly once")
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    return "done"


@server.tool
def shell(command: str) -> str:
    """Run a command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT)
    return done.stdout


@server.tool
def python(code: str) -> str:
    """Evaluate an expression."""
    return repr(eval(code, {}))


@server.tool
async def shout(text: str) -> str:
    """Say a text louder."""
    return text.upper() + "!"


if sys.argv[2:] == ["--http"]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    host, port = listener.getsockname()
    print(f"MCP at http://{host}:{port}/mcp", file=sys.stderr, flush=True)
    # The access log is off: haft and the server that only answers have none either.
    server.run(
        transport="http",
        host=host,
        port=port,
        sockets=[listener],
        uvicorn_config={"access_log": False},
        show_banner=False,
    )
else:
    server.run(show_banner=False)
