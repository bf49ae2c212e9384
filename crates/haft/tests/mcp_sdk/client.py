#!/usr/bin/env python3
"""Does the official Python SDK get what it expects of an MCP server on stdio?

    pip install 'mcp>=2'
    client.py haft mcp --dir '{dir}'

Makes a workspace of its own, puts its path where the command says {dir}, and
speaks to the server in both lifecycles: with `initialize`, and without. Prints
one line per check; exits non-zero when one of them failed.
"""

import random
import string
import sys
import tempfile
import time
from pathlib import Path

import anyio
from mcp import Client, MCPError, StdioServerParameters

NEEDED = {"read", "grep", "glob"}
failed = 0


def check(name: str, good: bool, seen: object = "") -> None:
    global failed
    failed += not good
    print(("ok    " if good else "FAIL  ") + name + (f"  ({seen})" if str(seen) else ""), flush=True)


def text(result) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


def make_workspace(folder: Path) -> None:
    (folder / "hello.txt").write_text("first line\nthe needle is here\nlast line\n")
    (folder / "notes.md").write_text("# notes\nnothing to see\n")
    for number in range(20):
        (folder / f"file_{number}.txt").write_text(f"file number {number}\n")
    # With the pattern below, which finds nothing there, a search that takes a while.
    letters = random.Random(1).choices(string.ascii_lowercase + " ", k=1 << 20)
    line = "".join(letters)
    with open(folder / "large.log", "w", encoding="ascii") as large:
        for start in range(60):
            large.write(line[start:] + line[:start] + "\n")


SLOW_PATTERN = r"\w[a-q ]{3,9}[^u-z]{13,40}[A-Z]"


async def converse(command: list[str], folder: Path, mode: str) -> None:
    server = StdioServerParameters(command=command[0], args=command[1:], cwd=folder)
    began = time.perf_counter()
    async with Client(server, mode=mode, read_timeout_seconds=30) as client:
        took = (time.perf_counter() - began) * 1000
        check("connects", True, f"protocol {client.protocol_version}, {took:.0f} ms with the start of the process")
        expected = "2025-11-25" if mode == "legacy" else "2026-07-28"
        check("agrees on the newest version", client.protocol_version == expected, client.protocol_version)
        check("says who it is", client.server_info is not None and client.server_info.name == "haft",
              client.server_info and f"{client.server_info.name} {client.server_info.version}")
        check("says how to use it", bool(client.instructions))

        tools = (await client.list_tools()).tools
        names = [tool.name for tool in tools]
        check("lists its tools", NEEDED <= set(names), f"{len(names)} tools")
        again = [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]
        check("lists them in the same order again", names == again)
        read = next((tool for tool in tools if tool.name == "read"), None)
        hints = read and read.annotations
        check("`read` says that it only reads", bool(hints and hints.read_only_hint and not hints.destructive_hint))
        check("no tool has an output schema", all(tool.output_schema is None for tool in tools))
        if "edit" in names:
            edit = next(tool for tool in tools if tool.name == "edit")
            check("`edit` says that it changes things",
                  bool(edit.annotations and edit.annotations.destructive_hint and not edit.annotations.read_only_hint))

        result = await client.call_tool("read", {"path": "hello.txt"})
        check("`read` reads", not result.is_error and "the needle is here" in text(result))
        check("text comes without structured content", result.structured_content is None)
        result = await client.call_tool("glob", {"pattern": "*.md"})
        check("`glob` finds", not result.is_error and "notes.md" in text(result))
        result = await client.call_tool("grep", {"pattern": "needle"})
        check("`grep` finds", not result.is_error and "hello.txt" in text(result))
        result = await client.call_tool("read", {"path": "no such file.txt"})
        check("a missing file is an error the model can read", result.is_error is True and "no such file" in text(result),
              text(result).splitlines()[0] if result.content else "nothing")

        try:
            await client.call_tool("no_such_tool", {})
            check("an unknown tool is a protocol error", False, "it was answered")
        except MCPError as error:
            check("an unknown tool is a protocol error", error.code == -32602, f"{error.code} {error.message}")

        if "write" in names:
            result = await client.call_tool("write", {"path": f"new_{mode}.txt", "content": "made\n"})
            made = folder / f"new_{mode}.txt"
            check("`write` writes", not result.is_error and made.is_file() and made.read_text() == "made\n", text(result)[:80])

        steps: list[float] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        result = await client.call_tool("grep", {"pattern": "needle"}, progress_callback=heard)
        check("a call may ask for progress", not result.is_error and steps == sorted(steps), f"{len(steps)} steps")
        if "steps" in names:
            result = await client.call_tool("steps", {"count": 1000}, progress_callback=heard)
            check("progress arrives", bool(steps) and steps[-1] == 1000, f"{len(steps)} steps")

        if "shell" in names:
            result = await client.call_tool("shell", {"command": "sleep 60 & echo done; exit 3", "wait_ms": 20000})
            check("a command comes back", not result.is_error and text(result).startswith("done\n"), text(result)[:120])
        slow = ("shell", {"command": "sleep 60"}) if "shell" in names else ("grep", {"pattern": SLOW_PATTERN})
        with anyio.move_on_after(0.2) as scope:
            await client.call_tool(*slow)
        began = time.perf_counter()
        result = await client.call_tool("read", {"path": "hello.txt"})
        took = (time.perf_counter() - began) * 1000
        check("a call can be cancelled", scope.cancelled_caught, slow[0])
        check("after that it still answers", "needle" in text(result), f"{took:.1f} ms")

        answers: dict[int, str] = {}

        async def one(number: int) -> None:
            answers[number] = text(await client.call_tool("read", {"path": f"file_{number}.txt"}))

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)
        right = sum(f"file number {number}\n" in answers[number] + "\n" for number in answers)
        check("20 calls at once get their own answers", right == 20, f"{right} of 20")
        closing = time.perf_counter()
    took = (time.perf_counter() - closing) * 1000
    check("ends with its input", took < 1500, f"{took:.0f} ms")


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__.strip())
        return 2
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        make_workspace(folder)
        command = [argument.replace("{dir}", str(folder)) for argument in sys.argv[1:]]
        for mode in ("legacy", "auto"):
            print(f"-- {'with' if mode == 'legacy' else 'without'} initialize", flush=True)
            anyio.run(converse, command, folder, mode)
    print(f"{failed} failed" if failed else "all good")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
