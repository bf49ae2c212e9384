"""How does a piece of code get an interpreter of its own without the start of one?

`serve`: this process stays, and has two more ready for the next call: a *keeper*, and below it
the process that becomes the interpreter of the code. For a call haft sends one byte on descriptor
3 with four descriptors: the call's control socket, its request, its input, its output. The code's
process reads the request and runs it; the keeper waits for that and ends what it leaves behind.

`once`: the request is on descriptor 3, and this very process runs the code.

Request    `length length …\n`, then as many bytes for each: options, folder, code, argument, …
To haft    `begun` · `exit N` or `signal N` · `ended N` (left behind, had to be killed);
           or `again`: this interpreter is no longer what a fresh one would be.
From haft  `i`: interrupt the code, then end all; `k` or the end of the connection: end all at once.

Imported here and therefore already there for the code: ctypes, select and struct with what they import;
traceback, which takes longer than all the rest, only once the first call has begun. A file of such a name
in the code's folder still comes first.
"""

import sys

# Started with `-c`, but nothing of this is to be imported from where it happens to start.
if sys.path and sys.path[0] == "":
    del sys.path[0]

STARTED_WITH = frozenset(sys.modules)

import _ast
import _signal
import atexit
import builtins
import errno
import gc
import os
import time

linecache = traceback = None
OURS = "<haft>"
CODE = "<code>"
# The bits of a code object's flags that `from __future__ import` sets.
FUTURES = 0x1FE0000
# How long what was left behind may take to end by itself.
GRACE = 0.1
# How long code that was interrupted may take to say where it was.
LAST_WORDS = 0.1
# The next fork is made once the code of a call has ended, or after this long: it would slow the code down.
PAUSE = 0.02
LIBRARY = os.path.dirname(os.__file__) + os.sep
PATH = list(sys.path)
# A fork shares its memory until one of the two writes, and counting a reference is writing: then a page is copied, and
# a call that copies 400 takes twice as long. So each process does before a call what the call will need (`rehearse`),
# what it need not free stays in `HELD`, and nobody goes through all of `sys.modules`, whose names lie everywhere.
HELD = []


class Request:
    """What one call wants."""

    def __init__(self, options, code, folder=b"", arguments=()):
        self.options, self.code, self.folder, self.arguments = options, code, folder, arguments

    @classmethod
    def read(cls, descriptor):
        data = b""
        while b"\n" not in data:
            data += more(descriptor)
        header, data = data.split(b"\n", 1)
        lengths = [int(it) for it in header.split()]
        parts, length = [data], len(data)
        while length < sum(lengths):
            parts.append(more(descriptor))
            length += len(parts[-1])
        data, fields, at = b"".join(parts), [], 0
        for length in lengths:
            fields.append(data[at : at + length])
            at += length
        folder, arguments = fields[1], [os.fsdecode(it) for it in fields[3:]]
        return cls(fields[0].decode().split(), fields[2].decode(), folder, arguments)

    def move_to(self, scratch):
        """Gives code that is to have a folder of its own this one, if it can be made."""
        if "scratch" in self.options:
            os.mkdir(scratch, 0o700)
            self.folder = os.fsencode(scratch)


def import_more():
    """Imports what few calls need, even if the code's folder has something of that name, or the code imported that."""
    global linecache, traceback
    path, sys.path[:] = list(sys.path), PATH
    foreign = {name: sys.modules[name] for name in Modules.new() if is_foreign(name, sys.modules[name])}
    for name in foreign:
        del sys.modules[name]
    try:
        import linecache
        import traceback
    finally:
        sys.path[:] = path
        sys.modules.update(foreign)


def scratch_folder():
    above = os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(above, "python-" + os.urandom(8).hex())


def more(descriptor):
    data = os.read(descriptor, 1 << 16)
    if not data:
        os._exit(1)
    return data


def remove(folder):
    try:
        if not os.path.lexists(folder):
            return
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                remove(entry.path)
            else:
                os.unlink(entry.path)
        os.rmdir(folder)
    except OSError:
        pass


# --- the process that stays ---------------------------------------------------------------------


def serve():
    """Waits for calls. Comes back in the process that is to run the code of one."""
    import _socket
    import ctypes
    import select
    import struct

    libc = ctypes.CDLL(None)
    room = _socket.CMSG_SPACE(16)

    def adopt():
        # PR_SET_CHILD_SUBREAPER: what loses its parent below this process becomes its child.
        if libc.prctl(36, 1, 0, 0, 0) != 0:
            raise OSError("no subreaper")

    def shut_in():
        # Keeps the code from sending signals to its keeper and the process that stays, and from opening their files by
        # `/proc`: a Landlock domain of its own does both. An older kernel knows no such scope.
        scope = bytes(16) + (2).to_bytes(8, sys.byteorder)  # LANDLOCK_SCOPE_SIGNAL
        ruleset = libc.syscall(444, scope, len(scope), 0)  # landlock_create_ruleset
        if ruleset >= 0:
            libc.syscall(446, ruleset, 0)  # landlock_restrict_self
            os.close(ruleset)

    def receive(socket, count):
        message, ancillary, _, _ = socket.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC)
        if not message:
            os._exit(0)
        return struct.unpack(f"{count}i", ancillary[0][2])

    def send(socket, *descriptors):
        data = struct.pack(f"{len(descriptors)}i", *descriptors)
        socket.sendmsg([b"c"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)])

    def rehearse_call():
        ends = _socket.socketpair()
        send(ends[0], 0, 0, 0, 0)
        for descriptor in receive(ends[1], 4):
            os.close(descriptor)
        for end in ends:
            end.close()

    def prepare():
        import_more()
        # What is made at first use is made once, and not in every call.
        compiled(Request(["last"], "0"))
        settle()
        gc.collect()
        gc.freeze()

    def settle():
        sys.path_importer_cache.clear()
        Modules.note()

    def stand_by(is_first=False):
        """Forks a keeper, and lets it fork. Comes back twice: here, and in the process for the code."""
        ours, keepers = _socket.socketpair()
        ours_too, codes = _socket.socketpair()
        scratch = scratch_folder()
        keeper = os.fork()
        if keeper == 0:
            ours.close()
            ours_too.close()
            door.close()
            for descriptor in watched:
                os.close(descriptor)
            try:
                os.setsid()
                adopt()
                child = os.fork()
                if child != 0:
                    codes.close()
                    if not is_first:
                        rehearse_call()
                    keep(child, lambda: receive(keepers, 1)[0], select, scratch)
                keepers.close()
                os.setsid()
                try:
                    # The first call is here already.
                    if not is_first:
                        rehearse_call()
                        rehearse()
                except Exception:
                    # The call finds out whether it matters.
                    pass
                shut_in()
                request = begin(*receive(codes, 4), codes)
                request.move_to(scratch)
                return None, request
            except BaseException:
                sys.__excepthook__(*sys.exc_info())
                os._exit(1)
        keepers.close()
        codes.close()
        watch = os.pidfd_open(keeper)
        watched[watch] = keeper
        poll.register(watch, select.POLLIN)
        rehearse_call()
        [stamp(it) for it in places]
        return (ours, ours_too), None

    adopt()
    # Whatever else was left open is not for the code.
    for descriptor in os.listdir("/proc/self/fd"):
        if int(descriptor) > 3:
            try:
                os.close(int(descriptor))
            except OSError:
                pass
    os.stat(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    door = _socket.socket(fileno=3)
    places = site_folders()
    stamps = [stamp(it) for it in places]
    watched = {}
    poll = select.poll()
    poll.register(3, select.POLLIN)
    settle()
    HELD.extend((adopt, receive, send, stand_by, rehearse_call, poll, door, watched, places, stamps, sys.stdin))
    gc.freeze()
    ready, request = stand_by(is_first=True)
    if request is not None:
        return request
    door.sendall(b"ready " + os.fsencode(sys.executable or "") + b"\n")
    while True:
        events = poll.poll(None if ready else PAUSE * 1000)
        # Time is up, the code of a call has ended, or the next call is here.
        if traceback is None and not events:
            prepare()
        if ready is None and (traceback is not None or any(it == 3 for it, _ in events)):
            ready, request = stand_by(is_first=traceback is None)
            if request is not None:
                return request
        for descriptor, _ in events:
            if descriptor != 3:
                poll.unregister(descriptor)
                os.waitpid(watched.pop(descriptor), 0)
                os.close(descriptor)
                # What a keeper did not end has become ours.
                end_strays(set(watched.values()))
                continue
            call = receive(door, 4)
            if [stamp(it) for it in places] != stamps:
                os.write(call[0], b"again\n")
            else:
                try:
                    # The keeper first: nothing runs that is not watched.
                    send(ready[0], call[0])
                    send(ready[1], *call)
                except OSError:
                    os.write(call[0], b"again\n")
                ready[0].close()
                ready[1].close()
                ready = None
            for descriptor in call:
                os.close(descriptor)
            break


def site_folders():
    """Where packages are installed: what is new there may be seen only by an interpreter that starts."""
    site = sys.modules.get("site")
    if site is None:
        return []
    found = [os.path.join(sys.prefix, "pyvenv.cfg"), *site.getsitepackages()]
    try:
        found.append(site.getusersitepackages())
    except Exception:
        pass
    return found


def stamp(path):
    try:
        about = os.stat(path)
        return about.st_ino, about.st_mtime_ns
    except OSError:
        return None


# --- the keeper of one call ---------------------------------------------------------------------


def keep(child, receive, select, scratch):
    """Waits for the process that runs the code, and ends what it leaves."""
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.poll(0)
    remove(scratch)
    control = receive()
    poll.register(control, select.POLLIN)
    status, was_let_be = watch(child, ended, control, poll)
    if os.WIFSIGNALED(status):
        end = f"signal {os.WTERMSIG(status)}"
    else:
        end = f"exit {os.WEXITSTATUS(status)}"
    left = end_all(GRACE if was_let_be else 0)
    remove(scratch)
    try:
        os.write(control, f"{end}\nended {left}\n".encode())
    except OSError:
        # haft is gone; everything has ended all the same.
        pass
    os._exit(0)


def watch(child, ended, control, poll):
    """Waits until the code has ended, or ends it when haft says so. Gives its status, and whether it was let be."""
    if ended in [descriptor for descriptor, _ in poll.poll()]:
        return os.waitpid(child, 0)[1], True
    try:
        word = os.read(control, 1)
    except OSError:
        word = b""
    if word == b"i":
        os.kill(child, _signal.SIGINT)
        poll.unregister(control)
        poll.poll(LAST_WORDS * 1000)
    # The code before its children: it must not see them die, and act on it. Until it is waited for, its id is its own.
    os.kill(child, _signal.SIGKILL)
    return os.waitpid(child, 0)[1], False


def end_all(grace):
    """Ends all processes below this one, once they had time to do so themselves; gives how many had to be killed."""
    killed = set()
    patience = time.monotonic() + grace
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return len(killed)
        over = time.monotonic() - patience
        if over >= 0:
            killed.update(kill(below(os.getpid())))
        # What can't be killed, because it has another user, is left to whoever keeps us.
        if over > 1:
            return len(killed)
        time.sleep(0.001)


def end_strays(keepers):
    """Ends what has lost its keeper."""
    for _ in range(1000):
        strays = below(os.getpid(), keepers)
        if not strays:
            return
        kill(strays)
        for pid in strays:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        time.sleep(0.001)


def kill(processes):
    """Kills these; gives those that were still alive."""
    killed = []
    for pid in processes:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X"):
                    continue
            os.kill(pid, _signal.SIGKILL)
            killed.append(pid)
        except OSError:
            pass
    return killed


def below(top, spare=()):
    """The processes below this one: parents come before their children."""
    found, todo = [], [top]
    while todo:
        pid = todo.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                    children = [int(it) for it in file.read().split()]
                fresh = [it for it in children if it not in spare]
                found += fresh
                todo += fresh
        except OSError as error:
            # Of one that has ended there is nothing to see; another error hides what is there.
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
    return found


# --- the process that runs the code -------------------------------------------------------------


def begin(control, request, stdin, output, codes):
    """Takes the call's descriptors for its own. Gives the request."""
    codes.close()
    taken = Request.read(request)
    os.write(control, b"begun\n")
    os.dup2(stdin, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for descriptor in (control, request, stdin, output):
        os.close(descriptor)
    return taken


def run(request):
    """Runs the code as `python3 -c` would; gives its exit status."""
    try:
        os.chdir(request.folder)
    except OSError as error:
        sys.exit(f"the folder can't be entered: {error}")
    sys.argv = ["-c", *request.arguments]
    sys.orig_argv = [sys.executable, "-c", *request.arguments]
    sys.path.insert(0, "")
    sys.path_importer_cache.clear()
    step_aside()
    gc.freeze()
    main = type(sys)("__main__")
    names = vars(main)
    names["__builtins__"] = builtins
    names["__loader__"] = sys.modules["_frozen_importlib"].BuiltinImporter
    if sys.version_info < (3, 14):
        names["__annotations__"] = {}
    sys.modules["__main__"] = main
    lines = request.code.splitlines(True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    # Without a time, so that nobody looks for the file.
    Lines.of_code = (len(request.code), None, lines, CODE)
    known = linecache or sys.modules.get("linecache")
    if known is not None:
        Lines.show_in(known)
    else:
        sys.meta_path.insert(0, Lines)
    return execute(request, names)


class Lines:
    """The code's lines, for `linecache`: the finder of modules that gives them to it when it is imported."""

    of_code = None

    @classmethod
    def show_in(cls, linecache):
        if isinstance(getattr(linecache, "cache", None), dict):
            linecache.cache[CODE] = cls.of_code

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "linecache":
            return None
        sys.meta_path.remove(cls)
        spec = sys.modules["_frozen_importlib"]._find_spec(name, path, target)
        load = getattr(getattr(spec, "loader", None), "exec_module", None)
        if load is not None:

            def load_with_lines(module):
                load(module)
                cls.show_in(module)

            spec.loader.exec_module = load_with_lines
        return spec


class Modules:
    """The modules that are there before the code runs."""

    known, newest = frozenset(), None
    # Those that only we imported, by the names that a file or folder with such a module has.
    ours = {}

    @classmethod
    def note(cls):
        cls.known = frozenset(sys.modules)
        cls.newest = list(sys.modules)[-1]
        ours = [it for it in cls.known if it not in STARTED_WITH and "." not in it]
        cls.ours = {file: name for name in ours for file in (name, name + ".py")}

    @classmethod
    def new(cls):
        """Those that the code imported."""
        if sys.version_info < (3, 8):
            return [it for it in list(sys.modules) if it not in cls.known]
        found = []
        # From the end, where the new ones are.
        for name in reversed(sys.modules):
            if name == cls.newest:
                break
            if name not in cls.known:
                found.append(name)
        return found


def step_aside():
    """What lies in the code's folder comes before the library, as if nothing had been imported yet."""
    gone = set()
    for name in hidden_by_folder():
        if os.path.exists(name + ".py") or os.path.exists(name + "/__init__.py"):
            gone.update(it for it in sys.modules if it == name or it.startswith(name + "."))
    if gone:
        for name in gone:
            del sys.modules[name]
        Modules.note()


def hidden_by_folder():
    """Those of our modules that something in this folder may have the name of."""
    found, listed = set(), 0
    # A short folder is listed; in a long one it is quicker to ask for each.
    with os.scandir(".") as entries:
        for entry in entries:
            listed += 1
            if listed > 200:
                return set(Modules.ours.values())
            if entry.name in Modules.ours:
                found.add(Modules.ours[entry.name])
    return found


def rehearse():
    """Does what each call will do, and puts back what that changed."""
    read, write = os.pipe()
    os.write(write, b"4 1 4\nlast/None")
    os.close(write)
    request = Request.read(read)
    os.close(read)
    before = sys.argv, sys.orig_argv, list(sys.path), sys.modules["__main__"]
    run(request)
    sys.argv, sys.orig_argv, sys.path[:], sys.modules["__main__"] = before
    if sys.stdout is not None:
        sys.stdout.write("")
    kind_of_input()
    matters()
    flush()


def execute(request, names):
    """Runs the code; gives its exit status, below zero for a signal that it is to end by."""
    try:
        for part in compiled(request):
            exec(part, names)
        return 0
    except SystemExit as end:
        return exit_status(end.code)
    except BaseException as error:
        show(error)
        return -_signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def compiled(request):
    """The code; its last statement apart, where the value of that is to be shown."""
    if "last" not in request.options:
        return [compile(request.code, CODE, "exec", 0, True)]
    tree = compile(request.code, CODE, "exec", _ast.PyCF_ONLY_AST, True)
    if not tree.body or not isinstance(tree.body[-1], _ast.Expr):
        return [compile(tree, CODE, "exec", 0, True)]
    last = _ast.Interactive(body=[tree.body.pop()])
    first = compile(tree, CODE, "exec", 0, True)
    return [first, compile(last, CODE, "single", first.co_flags & FUTURES, True)]


def exit_status(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    try:
        print(code, file=sys.stderr)
    except BaseException:
        pass
    return 1


def show(error):
    """Says what went wrong, without our own part of the way there."""
    way = error.__traceback__
    while way is not None and way.tb_frame.f_code.co_filename == OURS:
        way = way.tb_next
    error.__traceback__ = way
    try:
        if traceback is None:
            import_more()
            Lines.show_in(linecache)
        if isinstance(error, SyntaxError) and error.filename == CODE and error.text is None and error.lineno:
            error.text = linecache.getline(CODE, error.lineno)
        if sys.excepthook is not sys.__excepthook__:
            sys.excepthook(type(error), error, way)
        else:
            traceback.print_exception(type(error), error, way)
    except BaseException:
        try:
            sys.__excepthook__(type(error), error, way)
        except BaseException:
            pass


def leave(status):
    """Ends this process as an interpreter ends, and quickly where nobody can tell the difference."""
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
    except BaseException as error:
        show(error)
    try:
        atexit._run_exitfuncs()
    except BaseException as error:
        show(error)
    if status < 0:
        flush()
        _signal.signal(-status, _signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    if matters():
        sys.exit(status)
    if not flush() and status == 0:
        status = 120
    os._exit(status)


def matters():
    """Is there anything that has something to do at its end, such as a file that is still open?"""
    try:
        if any(is_foreign(name, sys.modules.get(name)) for name in Modules.new()):
            return True
    except RuntimeError:
        # A thread imports right now.
        return True
    # What was there before the code is frozen, and not among these.
    return any(hasattr(kind, "__del__") for kind in {type(it) for it in gc.get_objects()})


def is_foreign(name, module):
    place = getattr(module, "__file__", None)
    if name in ("__main__", "_dbm", "_gdbm"):
        return name != "__main__"
    if isinstance(place, str):
        return not place.startswith(LIBRARY) or "-packages" in place
    return name not in sys.builtin_module_names


def flush():
    """Writes what is still in buffers; false if it can't be written."""
    worked = True
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            worked = False
    return worked


def kind_of_input():
    about = os.fstat(0)
    return about.st_dev, about.st_ino, about.st_rdev


def fresh_input():
    """The input that this process has now: what the streams know of a descriptor, they learned when they were made."""
    old = sys.stdin
    if old is not None and kind_of_input() != INPUT:
        sys.stdin = sys.__stdin__ = open(0, "r", encoding=old.encoding, errors=old.errors, closefd=False)
        sys.stdin.buffer.raw.name = "<stdin>"


STARTED_AS = sys.modules["__main__"]
INPUT = kind_of_input()
if MODE == "serve":
    REQUEST = serve()
    fresh_input()
else:
    REQUEST = Request.read(3)
    os.close(3)
    SCRATCH, OWNER = scratch_folder(), os.getpid()
    REQUEST.move_to(SCRATCH)
    # A fork of the code ends as this process does, but owns nothing.
    atexit.register(lambda: os.getpid() == OWNER and remove(SCRATCH))
    Modules.note()
leave(run(REQUEST))
