import asyncio, threading, time

name = "leaves_threads"
description = "Leaves threads and tasks running."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


def busy():
    while True:
        time.sleep(0.01)


async def failing():
    raise SystemExit("from a task")


async def execute(params):
    threading.Thread(target=busy, daemon=False).start()
    asyncio.get_running_loop().create_task(failing())
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
    await asyncio.sleep(0)
    return "fine"
