import os

name = "forks_at_import"
description = "Forks while it is imported, and both go on."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}
os.fork()


async def execute(params):
    return "fine"
