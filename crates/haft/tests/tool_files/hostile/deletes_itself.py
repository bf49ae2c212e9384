import os

name = "deletes_itself"
description = "Deletes its own file."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    os.remove(__file__)
    raise ValueError("after that")
