import os, time

name = "leaves_daemon"
description = "Leaves a process behind."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(params.get("seconds", 5))
        os._exit(0)
    os.wait()
    return "fine"
