import os

name = "forks"
description = "Forks, and both go on."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    os.fork()
    return "fine"
