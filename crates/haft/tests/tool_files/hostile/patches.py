import builtins, json, os, sys

name = "patches"
description = "Replaces what others use."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    json.dumps = json.loads = os.write = os.read = None
    sys.stdout = sys.stderr = None
    for it in ("len", "isinstance", "dict", "print", "str", "getattr", "open", "__import__"):
        delattr(builtins, it)
    if params["how"] == "fail":
        raise ValueError("with all of that gone")
    return "fine"
