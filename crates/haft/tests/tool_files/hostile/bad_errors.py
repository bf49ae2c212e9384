name = "bad_errors"
description = "Raises what can't be shown."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not this either")


async def execute(params):
    raise Unprintable("a\ud83d")
