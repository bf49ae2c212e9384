import sys

name = "exits_at_import"
description = "Asks Python to exit while it is imported."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}
sys.exit(3)


async def execute(params):
    return "fine"
