import os

name = "exits_hard_at_import"
description = "Ends its process while it is imported."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}
os._exit(7)


async def execute(params):
    return "fine"
