import sys

name = "long_traceback"
description = "Fails at the end of a very deep call."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


def ping(depth):
    if depth == 0:
        raise ValueError("deep down")
    return pong(depth - 1)


def pong(depth):
    return ping(depth) if depth % 2 else ping(depth - depth % 1)


async def execute(params):
    sys.setrecursionlimit(40000)
    return ping(2500)
