import os, signal, sys

name = "changes_process"
description = "Changes what its process has."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    before = os.getcwd()
    os.chdir("/")
    sys.path[:] = []
    sys.modules.clear()
    sys.argv = None
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, lambda *_: 1 / 0)
    sys.setrecursionlimit(200)
    return before
