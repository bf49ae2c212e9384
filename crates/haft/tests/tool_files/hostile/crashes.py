import ctypes

name = "crashes"
description = "Reads from where there is no memory."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    ctypes.string_at(0)
