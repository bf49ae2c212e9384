import signal

name = "raises_later"
description = "Has a signal handler that raises when the call is over."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


def late(*_):
    raise TimeoutError("too late")


async def execute(params):
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    return "fine"
