name = "recurses"
description = "Calls itself without end."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


def deeper(depth):
    return deeper(depth + 1) + 1


async def execute(params):
    return deeper(1)
