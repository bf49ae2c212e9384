import os

name = "exits_hard"
description = "Ends its process."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    os._exit(7)
