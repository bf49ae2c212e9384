import no_such_module_anywhere

name = "missing_module"
description = "Imports what is not there."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    return "fine"
