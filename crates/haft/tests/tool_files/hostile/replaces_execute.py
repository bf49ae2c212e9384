name = "replaces_execute"
description = "Replaces its own function."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    global execute

    async def execute(params):
        return "another"

    return "fine"
