name = "both"
description = "A tool of two systems."
parameters = {"type": "object", "properties": {}}


async def execute(params):
    return "navi"


def tool_info():
    return {"name": "both_too", "description": description, "input_schema": parameters}


def tool_function():
    return "hyperagents"
