from __future__ import annotations

from typing import Any

from kohakuterrarium.llm.message import ImagePart, TextPart
from kohakuterrarium.modules.tool.base import (
    BaseTool,
    ExecutionMode,
    ToolContext,
    ToolResult,
    resolve_tool_path,
)
from kohakuterrarium.utils.file_guard import is_binary_file
from kohakuterrarium.utils.logging import get_logger

logger = get_logger(__name__)

_DOT = "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="


class CountTool(BaseTool):
    """Counts the words of a file."""

    needs_context = True
    is_concurrency_safe = True

    @property
    def tool_name(self) -> str:
        return "kt_class"

    @property
    def description(self) -> str:
        return "Count the words of a file"

    @property
    def execution_mode(self) -> ExecutionMode:
        return ExecutionMode.DIRECT

    def get_parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"path": {"type": "string"}, "picture": {"type": "boolean"}},
            "required": ["path"],
        }

    def get_full_documentation(self, tool_format: str = "native") -> str:
        return "# kt_class\n\nWords are what lies between spaces."

    async def _execute(self, args: dict[str, Any], context: ToolContext | None = None) -> ToolResult:
        path = resolve_tool_path(args["path"], context)
        logger.info("counting", path=str(path))
        if not path.exists():
            return ToolResult(error=f"File not found: {args['path']}")
        assert not is_binary_file(str(path))
        words = len(path.read_text().split())
        if args.get("picture"):
            return ToolResult(
                output=[TextPart(text=str(words)), ImagePart(url="data:image/gif;base64," + _DOT)],
                exit_code=0,
            )
        return ToolResult(output=str(words), exit_code=1 if words == 0 else 0)


class PlainTool(BaseTool):
    @property
    def tool_name(self) -> str:
        return "kt_plain"

    @property
    def description(self) -> str:
        return "Repeats what it is given"

    async def _execute(self, args: dict[str, Any], **kwargs: Any) -> ToolResult:
        if args["content"] == "raise":
            raise RuntimeError("as asked")
        return args["content"]
