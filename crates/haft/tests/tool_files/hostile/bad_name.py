name = "bad_name"
description = "Has a name that no model could call."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}
name = "../bad name"


async def execute(params):
    return "fine"
