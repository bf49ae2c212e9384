name = "loops"
description = "Never ends."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    while True:
        pass
