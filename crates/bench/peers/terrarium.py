"""How long does a call of a tool that does nothing take in KohakuTerrarium's executor?

Prints the median and the 95th percentile in microseconds, and the version. Logging is
off, and each result is taken from the queue, as its agent would.
"""

import asyncio
import logging
import sys
import time
from importlib.metadata import version

from kohakuterrarium.core.executor import Executor
from kohakuterrarium.modules.tool.base import BaseTool, ToolResult


class Nothing(BaseTool):
    tool_name = "nothing"
    description = "Does nothing."

    async def _execute(self, args, **_):
        return ToolResult(output="ok", exit_code=0)


async def main(calls):
    executor = Executor(queue_completion_events=False)
    executor.register_tool(Nothing())
    times = []
    for _ in range(calls + calls // 10):
        began = time.perf_counter_ns()
        job = await executor.submit("nothing", {"text": "x"}, is_direct=True)
        result = await executor.wait_for(job)
        times.append(time.perf_counter_ns() - began)
        assert result.output == "ok", result
    times = sorted(times[calls // 10 :])
    middle, late = times[len(times) // 2], times[len(times) * 95 // 100]
    print(middle / 1000, late / 1000, version("kohakuterrarium"))


logging.disable(logging.CRITICAL)
asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))
