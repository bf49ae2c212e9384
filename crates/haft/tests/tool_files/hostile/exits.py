import sys

name = "exits"
description = "Asks Python to exit."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    if params.get("how") == "exit":
        sys.exit(3)
    return "fine"
