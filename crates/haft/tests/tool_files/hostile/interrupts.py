name = "interrupts"
description = "Raises what Ctrl-C raises."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    if params.get("how") == "interrupt":
        raise KeyboardInterrupt
    return "fine"
