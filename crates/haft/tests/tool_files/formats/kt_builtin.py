from kohakuterrarium.builtins.tools.registry import register_builtin
from kohakuterrarium.modules.tool import BaseTool, ToolResult


@register_builtin("kt_builtin")
class EchoTool(BaseTool):
    @property
    def tool_name(self):
        return "kt_builtin"

    @property
    def description(self):
        return "Echoes"

    def _execute(self, args, **kwargs):
        return ToolResult(output="echo: " + args["content"])
