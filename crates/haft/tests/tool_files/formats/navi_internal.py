from navi.config import settings
from navi.llm.base import ToolSchema
from navi.tools._internal.base import Tool, ToolContext, ToolResult

from .base import Tool as SameTool


class InternalTool(Tool):
    name = "navi_internal"
    description = "Says what it is told of its place."
    parameters = {"type": "object", "properties": {}}

    def execute(self, params):
        assert SameTool is Tool and ToolSchema
        context = ToolContext.current()
        return ToolResult(
            success=True,
            output=f"{context.session_id} {settings.tools_dir.rsplit('/', 1)[-1]} {settings.no_such_setting}",
        )
