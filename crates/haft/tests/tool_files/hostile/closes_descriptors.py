import os

name = "closes_descriptors"
description = "Closes the low descriptors."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    os.closerange(0, 21)
    return "fine"
