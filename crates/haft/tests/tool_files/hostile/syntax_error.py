name = "syntax_error"
description = "Is no Python."
parameters = {"type": "object", "properties": {}


async def execute(params):
    return "never"
