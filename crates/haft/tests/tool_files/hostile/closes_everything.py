import os

name = "closes_everything"
description = "Closes all descriptors, so that no answer can come."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    os.closerange(0, 4096)
    return "fine"
