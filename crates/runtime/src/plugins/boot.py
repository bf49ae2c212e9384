"""How does the host come to run: compiled now, or as this Python compiled it before?

Three pieces come, each after 8 digits with its length: which Python compiled the code, the code, the source. Without a
code that is this Python's, the source is compiled, and `COMPILED` holds what there is to be kept.
"""

import marshal
import os
import sys

from _frozen_importlib_external import MAGIC_NUMBER


def exactly(length):
    whole = b""
    while len(whole) < length:
        whole += os.read(3, length - len(whole)) or sys.exit(1)
    return whole


def piece():
    return exactly(int(exactly(8)))


# Two builds of one version may read code in two ways.
this = ("%s %s %s" % (sys.version, sys.implementation.cache_tag, MAGIC_NUMBER.hex())).encode()
compiled_by, code, source = piece(), piece(), piece()
if code and compiled_by == this:
    whole, compiled = marshal.loads(code), None
else:
    whole = compile(source, "<haft>", "exec")
    compiled = (this, marshal.dumps(whole))
exec(whole, {"__name__": "haft", "COMPILED": compiled})
