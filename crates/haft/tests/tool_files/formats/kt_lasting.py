"""A tool that works in the background, one that says nothing of it, and two generators."""
import asyncio

from kohakuterrarium.modules.tool.base import BaseTool, ExecutionMode, ToolResult
from kohakuterrarium.modules.tool.function import tool


class Later(BaseTool):
    @property
    def tool_name(self):
        return "kt_later"

    @property
    def description(self):
        return "Works in the background."

    @property
    def execution_mode(self):
        return ExecutionMode.BACKGROUND

    async def _execute(self, args):
        await asyncio.sleep(0.1)
        return ToolResult("LATER")


class Usual(BaseTool):
    @property
    def tool_name(self):
        return "kt_usual"

    @property
    def description(self):
        return "Says nothing of how it works."

    async def _execute(self, args):
        return ToolResult("USUAL")


class Counts(BaseTool):
    @property
    def tool_name(self):
        return "kt_counts"

    @property
    def description(self):
        return "Adds up what it is given."

    @property
    def execution_mode(self):
        return ExecutionMode.STATEFUL

    async def _execute(self, args):
        total = int(args.get("content") or 0)
        while total < 10:
            total += (yield ToolResult("total %d" % total))
        yield "enough: %d" % total


@tool(execution_mode=ExecutionMode.STATEFUL)
async def kt_fails():
    """Fails at its second step."""
    given = yield "first"
    raise ValueError("no " + given)
