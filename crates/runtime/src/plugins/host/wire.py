"""How does the host speak with haft, whatever a tool does to the process they share?

The host is some files that haft joins into one script, in this order: wire.py, faults.py, signature.py, navi.py,
terrarium.py, channels.py, agents.py, shims.py, results.py, questions.py, formats.py, describe.py, host.py. They share
one set of globals and import nothing of each other.

Over the socket, which is descriptor 3 at the start, goes one JSON value per line. The first line from haft is
`{"token": …, "mode": "serve" | "describe"}`; host.py says what follows. Every line to haft is `TOKEN JSON\\n`: what a
tool has written to the socket lies before the token, and haft leaves it out.

What is used while a tool's code is in the process is taken here, before that code runs: a tool that replaces
`os.write`, `json.dumps` or `len` harms only itself.
"""

import builtins

# Before the first `def`: from here on, functions find their builtins in this copy (Python 3.10 and newer).
globals()["__builtins__"] = dict(vars(builtins))

import sys
import time

from _thread import allocate_lock, start_new_thread
from errno import EBADF, ECONNRESET, EINVAL, EIO, ENOTCONN, EPIPE
from os import (
    O_CLOEXEC,
    O_RDONLY,
    P_PID,
    WEXITED,
    WEXITSTATUS,
    WIFSIGNALED,
    WNOHANG,
    WNOWAIT,
    WTERMSIG,
    _exit,
    chdir,
    close,
    dup2,
    fork,
    getpid,
    kill,
    killpg,
    pipe,
    read,
    register_at_fork,
    set_blocking,
    setpgid,
    stat,
    waitid,
    waitpid,
    write,
)
from os import open as open_file

try:
    # Not `json`: that imports `re`, which is a third of what the whole start costs.
    from _json import encode_basestring, make_encoder, make_scanner
except ImportError:
    make_scanner = None

# Where the socket is moved to: out of the way of a tool that closes or writes to low descriptors.
HIGH = 230
CHUNK = 65536
# What the system says of a socket that is no more. A tool's signal handler may raise any other OSError.
GONE = frozenset((EBADF, ECONNRESET, EINVAL, EIO, ENOTCONN, EPIPE))
# What a result may come to; the sum of all its parts.
MOST_BYTES = 64 * 1024 * 1024


class Unfit(Exception):
    """A value that can't be sent, with a sentence that says why."""


class Rules:
    """How the scanner reads JSON: as `json.loads` does."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo = {}


def not_json(value):
    raise TypeError("a value of type %s has no form in JSON" % type(value).__name__)


def encode(value):
    """JSON, on one line. Raises Unfit for what has no form in it."""
    try:
        return to_json(value)
    except RecursionError:
        raise Unfit("it is nested too deeply for JSON") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise Unfit("it is not JSON: %s" % error) from None


if make_scanner is None:
    import json

    decode = json.loads
    to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
else:
    scan = make_scanner(Rules)

    def decode(text):
        return scan(text, 0)[0]

    def to_json(value):
        if isinstance(value, str):
            return encode_basestring(value)
        # One per value: it keeps what it was in when it failed.
        encoder = make_encoder({}, not_json, encode_basestring, None, ":", ",", False, False, False)
        return "".join(encoder(value, 0))


class Wire:
    """The connection: this process's end of the socket, and in a child that describes a file, of its pipe."""

    descriptor = 3
    process = 0
    token = b""
    lock = allocate_lock()
    pending = []


def connect():
    """Takes the socket over. Returns haft's first line, decoded, and the lines that came with it."""
    try:
        Wire.descriptor = dup2(3, HIGH, inheritable=False)
        close(3)
    except OSError:
        pass  # No more than so many descriptors are allowed: it stays where it is.
    Wire.process = getpid()
    register_at_fork(after_in_child=forget)
    messages = ()
    while not messages:
        messages = received()
    Wire.token = messages[0]["token"].encode()
    return messages[0], messages[1:]


def forget():
    """In a forked child: the socket is the parent's. While it is open here, haft would not see the parent's end."""
    Wire.process, descriptor, Wire.descriptor = 0, Wire.descriptor, -1
    try:
        close(descriptor)
    except OSError:
        pass


def received():
    """The lines that the next read brings, perhaps none. It waits if there is nothing to read."""
    try:
        chunk = read(Wire.descriptor, CHUNK)
    except OSError as error:
        if error.errno not in GONE:
            raise
        chunk = b""
    if not chunk:
        leave()
    # The common case: one read, one line.
    if not Wire.pending and chunk.find(b"\n") == len(chunk) - 1:
        return (decode(chunk.decode()),)
    *whole, rest = chunk.split(b"\n")
    if whole:
        whole[0] = b"".join(Wire.pending) + whole[0]
        Wire.pending = []
    # A long line comes in many pieces, which are joined once.
    if rest:
        Wire.pending.append(rest)
    return [decode(it.decode()) for it in whole]


def send(message):
    """Sends a message whole, or raises Unfit and sends nothing."""
    try:
        line = encode(message).encode()
    except UnicodeEncodeError as error:
        raise Unfit("it holds %r, half of a surrogate pair, which is not text" % error.object[error.start]) from None
    if len(line) > MOST_BYTES:
        raise Unfit("it comes to %d MB; %d MB is the most" % (len(line) >> 20, MOST_BYTES >> 20))
    put(b"%s %s\n" % (Wire.token, line))


def put(line):
    if getpid() != Wire.process:
        # A child that a tool forked has come back from the tool: only its parent answers.
        leave()
    with Wire.lock:
        sent = []
        while line:
            try:
                # One step of the interpreter: what a tool's signal handler raises comes before the write, or when
                # it has been noted how much was written.
                sent.extend(map(write, (Wire.descriptor,), (line,)))
            except BaseException as error:
                if isinstance(error, OSError) and error.errno in GONE:
                    leave()
            if sent:
                line = line[sent.pop() :]


def leave(status=0):
    """Ends this process at once, after what was printed has gone out."""
    flush()
    _exit(status)


STDOUT, STDERR = sys.stdout, sys.stderr


def flush():
    for ours, stream in ((STDOUT, sys.stdout), (STDERR, sys.stderr)):
        try:
            ours.flush()
            if stream is not ours:
                stream.flush()
        except BaseException:
            pass
