"""Has something of a tool, not all."""

name = "no_tool"


def execute(params):
    return "never"
