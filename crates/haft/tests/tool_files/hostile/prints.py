import os, sys

name = "prints"
description = "Prints where an answer might be expected."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}
print("while it is imported")


async def execute(params):
    print("in the call", end="")
    print("to the errors", file=sys.stderr)
    os.write(1, b"straight to the output")
    return "fine"
