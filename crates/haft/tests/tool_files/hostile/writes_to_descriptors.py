import os

name = "writes_to_descriptors"
description = "Writes to every descriptor that is open."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    for descriptor in range(1, 1024):
        for junk in (b'{"op": "result", "id": 1, "ok": true}\n', b"no end of a line"):
            try:
                os.write(descriptor, junk)
            except OSError:
                pass
    return "fine"
