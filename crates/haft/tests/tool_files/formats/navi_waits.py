"""Waits for others of its kind: calls run at the same time."""
import asyncio

name = "navi_waits"
description = "Waits until as many calls have come as are expected, and says in which place this one came."
parameters = {
    "type": "object",
    "properties": {"expected": {"type": "integer"}},
    "required": ["expected"],
}
touches = []
timeout_seconds = 30

_here = 0
_all_here = asyncio.Event()


async def execute(params: dict) -> str:
    global _here
    loop = asyncio.get_running_loop()
    assert asyncio.current_task() is not None and loop.is_running()
    _here += 1
    place = _here
    if _here >= params["expected"]:
        _all_here.set()
    await _all_here.wait()
    process = await asyncio.create_subprocess_exec("echo", str(place), stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return "place " + said.decode().strip()
