name = "huge_description"
description = ""
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}
description = "long " * 200_000


async def execute(params):
    return "fine"
