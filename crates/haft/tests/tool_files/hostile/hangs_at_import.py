import time

name = "hangs_at_import"
description = "Waits while it is imported."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


def wait_for_something():
    time.sleep(3600)


wait_for_something()


async def execute(params):
    return "fine"
