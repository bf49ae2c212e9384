import ctypes

name = "crashes_at_import"
description = "Reads from where there is no memory, while it is imported."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}
ctypes.string_at(0)


async def execute(params):
    return "fine"
