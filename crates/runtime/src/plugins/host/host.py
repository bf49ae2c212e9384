"""What does a tool's process do, from its start to its end?

`serve`: it loads one version of one file, and answers calls of the tools in it until the socket ends.

    {"op": "load", "path", "folder", "source", "workspace", "session", "settings"}
        → {"op": "loaded", "tools": […], "executable"}  or  {"op": "broken", "error", "traceback"}
    {"op": "call", "id", "entry", "arguments", "session", "tell"}
        → {"op": "begun", "id"} where `tell` asks for it, {"op": "progress", "id", "done", "total", "message"} …,
          and one {"op": "result", "id", …}, of which results.py says what is in it; with `started`, if since the last
          one that was alone processes may have been started
    {"op": "input", "id", "of", "input"}
        → as a call. `of` is the call whose result had `more`: it is a generator, and goes on with this input
    {"op": "cancel", "id"}

Coroutines run in one asyncio loop on the main thread, which reads the socket too. A file that mentions neither
asyncio nor `await`, and after whose import asyncio is not there, can't tell whether there is a loop: for it there is
none, and its coroutines are run by hand, which saves the import of asyncio, most of the time of a start. What is not a coroutine
function has a thread for each call that is running, so that it may block, or call `asyncio.run`.
"""

from contextvars import ContextVar, copy_context

# The call that runs here.
CURRENT = ContextVar("call", default=None)


# How often an answer is begun anew.
ATTEMPTS = 100


class Serving:
    """What this process is doing."""

    tools = {}
    # The loop, once there is a need of one.
    loop = None
    # The calls that run, by id.
    running = {}
    # The generators that wait for input, by the id of the call that made them.
    waiting = {}
    # Calls that wait for a thread, and how many threads wait for a call.
    work = SimpleQueue()
    idle = 0
    lock = allocate_lock()
    # The newest process there was when no call ran.
    newest = None


class Call:
    """One call of a tool."""

    task = stop = None
    begun = cancelled = False

    def __init__(self, message):
        self.id, self.session, self.arguments = message["id"], message.get("session"), message["arguments"]
        self.tool = Serving.tools.get(message.get("entry", ""))
        # What its generator is sent, once it has one.
        self.steps, self.input, self.of = None, None, self.id

    def goes_on(self, message):
        """It again, with what its generator is sent."""
        self.id, self.input, self.begun, self.cancelled = message["id"], message["input"], False, False
        return self

    def start(self):
        """In the context of the call: what the tool returns, or a coroutine that gives it."""
        CURRENT.set(self)
        variables = sys.modules.get("navi.tools.base")
        if variables is not None:
            variables.current_session_id.set(self.session)
            variables.current_event_sink.set(EventSink(self.progress))
            if Serving.loop is not None:
                self.stop = sys.modules["asyncio"].Event()
                variables.current_stop_event.set(self.stop)
        return self.tool.begin(self.arguments, self)

    def progress(self, message, done=None):
        done = done if isinstance(done, (int, float)) and not isinstance(done, bool) else 0
        send({"op": "progress", "id": self.id, "done": done, "total": None, "message": clean(message)})

    async def step(self):
        """What to answer: the result, or what its generator yields, of which there may be more."""
        if self.steps is None:
            value = self.start()
            if not hasattr(value, "asend"):
                return self.returned(await value)
            self.steps = value
        try:
            value = await self.steps.asend(self.input)
        except StopAsyncIteration:
            return succeeded([])
        outcome = self.returned(value)
        if outcome.get("ok"):
            Serving.waiting[self.of] = self
            outcome["more"] = True
        return outcome

    def cancel(self):
        self.cancelled = True
        if self.stop is not None:
            self.stop.set()
        # A task that has not begun would never do so, and never answer.
        if self.begun:
            self.task.cancel()

    def returned(self, value):
        """What to answer for what the tool returned."""
        try:
            return self.tool.read(value)
        except Unfit as error:
            return failed("what it returned can't be given: " + readable(error))
        except BaseException as error:
            return failed(**told(error))

    def raised(self, error):
        """What to answer for what the tool raised."""
        if self.cancelled and type(error).__name__ == "CancelledError":
            return failed("cancelled")
        return failed(**told(error))

    def answer(self, outcome):
        Serving.running.pop(self.id, None)
        # More than once only where a tool's signal handler raises here. haft takes the first answer of those that come.
        for _ in range(ATTEMPTS):
            try:
                flush()
                return send(dict(outcome, op="result", id=self.id, started=not Serving.running and has_started()))
            except Unfit as error:
                outcome = failed("what it returned can't be given: " + readable(error))
            except BaseException:
                pass
        leave(1)


def serve_all(messages):
    """Serves these messages, and those that came while an answer was waited for."""
    for message in messages:
        serve(message)
    while Questions.later:
        serve(Questions.later.pop(0))


def serve(message):
    if answered(message):
        return
    if message["op"] == "load":
        serve_load(message)
    elif message["op"] == "call":
        if message.get("tell"):
            send({"op": "begun", "id": message["id"]})
        begin(Call(message))
    elif message["op"] == "input":
        if message.get("tell"):
            send({"op": "begun", "id": message["id"]})
        call = Serving.waiting.pop(message["of"], None)
        if call is None:
            return send(dict(failed("it does not wait for input"), op="result", id=message["id"]))
        begin(call.goes_on(message))
    elif message["op"] == "cancel":
        # A generator that nobody goes on with is closed when it is forgotten.
        Serving.waiting.pop(message["id"], None)
        if message["id"] in Serving.running:
            Serving.running[message["id"]].cancel()


def serve_load(message):
    try:
        tools = load(message)
        if any(it.waits for it in tools) and may_need_loop(message["source"]):
            Serving.loop = new_loop()
        Serving.tools = {it.described["entry"]: it for it in tools}
        has_started()
        answer = {"op": "loaded", "tools": [it.described for it in tools], "executable": sys.executable}
        flush()
        send(answer)
    except BaseException as error:
        flush()
        send(dict(told(error), op="broken"))


def has_started():
    """May a process have been started since this was last asked? A thread counts as one, which costs haft a look."""
    before, Serving.newest = Serving.newest, newest_process()
    return Serving.newest is None or Serving.newest != before


def newest_process():
    """The number that was given last in this namespace of processes."""
    try:
        descriptor = open_file("/proc/loadavg", O_RDONLY | O_CLOEXEC)
        try:
            return read(descriptor, 128).split()[-1]
        finally:
            close(descriptor)
    except (OSError, IndexError):
        return None


def may_need_loop(source):
    words = ("asyncio", "await", "async for", "async with")
    return "asyncio" in sys.modules or any(it in source for it in words)


def new_loop():
    """The loop of the main thread."""
    import asyncio

    loop = None
    if sys.version_info < (3, 12):
        # What a file made of asyncio's while it was imported may belong to the loop that was there.
        try:
            loop = asyncio.get_event_loop_policy().get_event_loop()
        except RuntimeError:
            pass
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    return loop


def begin(call):
    Serving.running[call.id] = call
    if call.tool is None:
        call.answer(failed("this version of the file has no such tool"))
        return
    if len(Serving.running) == 1:
        to_workspace()
    if not call.tool.waits:
        in_thread(call)
    elif Serving.loop is None:
        by_hand(call)
    else:
        call.task = Serving.loop.create_task(in_loop(call))


def by_hand(call):
    try:
        context = copy_context()
        coroutine = call.step()
        context.run(coroutine.send, None)
    except StopIteration as end:
        outcome = end.value
    except BaseException as error:
        outcome = call.raised(error)
    else:
        outcome = failed("it waits for something that is not asyncio's")
    call.answer(outcome)


async def in_loop(call):
    call.begun = True
    try:
        outcome = failed("cancelled") if call.cancelled else await call.step()
    except BaseException as error:
        outcome = call.raised(error)
    call.answer(outcome)


def in_thread(call):
    with Serving.lock:
        is_new = Serving.idle == 0
        Serving.idle -= 0 if is_new else 1
    if is_new:
        start_new_thread(worker, ())
    Serving.work.put(call)


def worker():
    if "asyncio" in sys.modules:
        # For `asyncio.get_event_loop().run_until_complete(…)`, which elsewhere finds the main thread's.
        asyncio = sys.modules["asyncio"]
        asyncio.set_event_loop(asyncio.new_event_loop())
    while True:
        call = Serving.work.get()
        try:
            value = copy_context().run(call.start)
            if hasattr(value, "__await__"):
                value = run_alone(value)
            outcome = call.returned(value)
        except BaseException as error:
            outcome = call.raised(error)
        with Serving.lock:
            Serving.idle += 1
        call.answer(outcome)
        # What it holds lives no longer than the call.
        call = value = outcome = None


def run_alone(coroutine):
    """Awaits what a plain function returned, in a loop of its own."""
    import asyncio

    async def it():
        return await coroutine

    return asyncio.run(it())


def serve_calls(messages):
    """Serves these messages and all that follow."""
    while True:
        try:
            serve_all(messages)
            messages = ()
            while Serving.loop is None:
                serve_all(received())
            serve_in_loop()
        except BaseException:
            # A tool's signal handler, or a task that it left behind, raised here.
            messages = ()


def serve_in_loop():
    def to_read():
        serve_all(received())

    if Serving.loop.is_closed():
        leave(1)
    Serving.loop.add_reader(Wire.descriptor, to_read)
    Serving.loop.run_forever()


def main():
    import faulthandler

    first, messages = connect()
    if COMPILED and first.get("keep"):
        from binascii import b2a_base64

        # Before any code of a tool's runs: of all that is sent, haft believes only this to be ours.
        send({"op": "compiled", "compiled_by": COMPILED[0].decode(), "code": b2a_base64(COMPILED[1]).decode().strip()})
    # To descriptor 2: where it was when it died of a signal.
    faulthandler.enable()
    for stream in (STDOUT, STDERR):
        # `-u` has each piece of a line written by itself.
        stream.reconfigure(line_buffering=True, write_through=False)
    if sys.path and sys.path[0] == "":
        # Nothing is to be imported from where it happens to start.
        del sys.path[0]
    if first["mode"] == "describe":
        serve_descriptions(messages)
    serve_calls(messages)


# From a frame with other globals: before Python 3.10 that is where a function's builtins are looked up anew.
exec(compile("main()", OURS, "exec"), {"main": main})
