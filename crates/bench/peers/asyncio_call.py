"""How long does `await execute(params)` take in a running loop? Prints the median in microseconds."""

import asyncio
import importlib.util
import sys
import time

spec = importlib.util.spec_from_file_location("tool", sys.argv[1])
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


async def main():
    took = []
    for _ in range(20_000):
        began = time.perf_counter()
        # As an agent does it: each call is a task of its own.
        await asyncio.create_task(tool.execute({"text": "good morning"}))
        took.append(time.perf_counter() - began)
    print(sorted(took)[len(took) // 2] * 1e6)


asyncio.run(main())
