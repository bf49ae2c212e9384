"""How long does a turn take in KohakuTerrarium's stream parser and executor?

Plays the same answers as the table's own rows: a call is submitted when the parser says
that its block is closed, as its agent does, and all results are awaited. Prints, in
seconds: the median from the closing tag to the start of the tool, the five waiting tools,
one step of a call that does nothing; and the version.
"""

import asyncio
import logging
import time
from importlib.metadata import version

from kohakuterrarium.core.executor import Executor
from kohakuterrarium.modules.tool.base import BaseTool, ToolResult
from kohakuterrarium.parsing import ParserConfig, StreamParser, ToolCallEvent

ROUNDS = 300
STEPS = 50
PIECE = 8

began = 0
started = []


class Stamp(BaseTool):
    tool_name = "stamp"
    description = "Notes when it starts."

    async def _execute(self, args, **_):
        started.append(time.perf_counter() - began)
        return ToolResult(output="ok", exit_code=0)


class Pause(BaseTool):
    tool_name = "pause"
    description = "Waits for a second."

    async def _execute(self, args, **_):
        await asyncio.sleep(1)
        return ToolResult(output="ok", exit_code=0)


def pieces(text):
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


async def answer(executor, parts):
    """One answer of a model: texts, and seconds that pass between them."""
    global began
    parser = StreamParser(ParserConfig(known_tools={"stamp", "pause"}))
    jobs = []
    for part in parts:
        if isinstance(part, float):
            await asyncio.sleep(part)
            continue
        began = time.perf_counter()
        for event in parser.feed(part):
            if isinstance(event, ToolCallEvent):
                jobs.append(await executor.submit(event.name, event.args, is_direct=True))
        # The next part comes from a socket: others run meanwhile.
        await asyncio.sleep(0)
    parser.flush()
    for job in jobs:
        result = await executor.wait_for(job)
        assert result.output == "ok", result
    return len(jobs)


async def main():
    executor = Executor(queue_completion_events=False)
    executor.register_tool(Stamp())
    executor.register_tool(Pause())
    stamp = pieces("I note the time.\n[/stamp]\nok\n[stamp/]")
    for _ in range(ROUNDS):
        assert await answer(executor, stamp) == 1
    late = sorted(started)[len(started) // 2]
    at = time.perf_counter()
    for _ in range(STEPS):
        await answer(executor, stamp)
    step = (time.perf_counter() - at) / STEPS
    parts = []
    for _ in range(5):
        parts += [0.6, *pieces("[/pause]\nok\n[pause/]\n")]
    at = time.perf_counter()
    assert await answer(executor, parts) == 5
    print(late, time.perf_counter() - at, step, version("kohakuterrarium"))


logging.disable(logging.CRITICAL)
asyncio.run(main())
