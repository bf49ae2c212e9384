name = "bad_schema"
description = "Has a schema that is not JSON."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}
parameters = {"type": "object", "properties": {"a": {1, 2}}}


async def execute(params):
    return "fine"
