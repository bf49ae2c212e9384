"""What does a tool's process do, from its start to its end?

`serve`: it loads one version of one file, and answers calls of the tools in it until the socket ends.

    {"op": "load", "path", "folder", "source", "workspace", "session", "settings"}
        → {"op": "loaded", "tools": […]}  or  {"op": "broken", "error", "traceback"}
    {"op": "call", "id", "entry", "arguments", "session", "call"}
        → {"op": "progress", "id", "done", "total", "message"} …, then {"op": "result", "id", "ok", …}
    {"op": "cancel", "id"}

Coroutines run in one asyncio loop on the main thread, which reads the socket too. A file that never mentions asyncio or
`await` can't tell whether there is a loop: for it there is none, and its coroutines are run by hand, which saves the
import of asyncio, most of the time of a start. What is not a coroutine function has a thread for each call that is
running, so that it may block, or call `asyncio.run`.
"""

from contextvars import copy_context

from _queue import SimpleQueue


class Serving:
    """What this process is doing."""

    tools = {}
    # The loop, once there is a need of one.
    loop = None
    # The calls that run, by id: the task of one that is a coroutine in the loop.
    running = {}
    cancelled = set()
    # Calls that wait for a thread, and how many threads wait for a call.
    work = SimpleQueue()
    idle = 0


class Call:
    """One call of a tool."""

    def __init__(self, message):
        self.id = message["id"]
        self.tool = Serving.tools.get(message.get("entry", ""))
        self.arguments = message["arguments"]
        self.session = message.get("session")

    def start(self):
        """In the context of the call: what the tool returns, or a coroutine that gives it."""
        variables = sys.modules.get("navi.tools.base")
        if variables is not None:
            variables.current_session_id.set(self.session)
            variables.current_event_sink.set(EventSink(self.progress))
            if Serving.loop is not None:
                self.stop = sys.modules["asyncio"].Event()
                variables.current_stop_event.set(self.stop)
        return self.tool.begin(self.arguments, self)

    def progress(self, message, done=None):
        done = done if isinstance(done, (int, float)) and not isinstance(done, bool) else None
        send({"op": "progress", "id": self.id, "done": done, "total": None, "message": clean(message)})

    def answer(self, outcome):
        flush()
        self.send(dict(outcome, op="result", id=self.id))
        Serving.running.pop(self.id, None)
        Serving.cancelled.discard(self.id)

    def send(self, message):
        try:
            send(message)
        except BaseException as error:
            refused = failed("what it returned can't be given: " + readable(error))
            send(dict(refused, op="result", id=self.id))

    def end(self, value):
        """Answers with what the tool returned."""
        try:
            outcome = self.tool.read(value)
        except Unfit as error:
            outcome = failed("what it returned can't be given: " + readable(error))
        except BaseException as error:
            outcome = failed(**told(error))
        self.answer(outcome)

    def fail(self, error):
        """Answers with what the tool raised."""
        if self.id in Serving.cancelled and type(error).__name__ == "CancelledError":
            self.answer(failed("cancelled"))
        else:
            self.answer(failed(**told(error)))


def serve(message):
    if message["op"] == "load":
        serve_load(message)
    elif message["op"] == "call":
        if message.get("tell"):
            send({"op": "begun", "id": message["id"]})
        begin(Call(message))
    elif message["op"] == "cancel":
        cancel(message["id"])


def serve_load(message):
    try:
        if "asyncio" in message["source"]:
            # What it makes of asyncio's while it is imported belongs to the loop that will run it.
            use_loop()
        tools = load(message)
        if Serving.loop is None and ("asyncio" in sys.modules or "await" in message["source"] or "async for" in message["source"] or "async with" in message["source"]):
            use_loop()
        Serving.tools = {it.described["entry"]: it for it in tools}
        answer = {"op": "loaded", "tools": [it.described for it in tools], "executable": sys.executable}
        flush()
        send(answer)
    except BaseException as error:
        flush()
        send(dict(told(error), op="broken"))


def begin(call):
    tool = call.tool
    Serving.running[call.id] = None
    if tool is None:
        call.answer(failed("there is no such tool in the file any more"))
    elif not tool.waits:
        in_thread(call)
    elif Serving.loop is None:
        by_hand(call)
    else:
        Serving.running[call.id] = Serving.loop.create_task(in_loop(call))


def by_hand(call):
    try:
        context = copy_context()
        coroutine = context.run(call.start)
        context.run(coroutine.send, None)
    except StopIteration as end:
        call.end(end.value)
    except BaseException as error:
        call.fail(error)
    else:
        call.answer(failed("it waits for something that is not asyncio's"))


async def in_loop(call):
    try:
        value = await call.start()
    except BaseException as error:
        call.fail(error)
    else:
        call.end(value)


def in_thread(call):
    if Serving.idle == 0:
        start_new_thread(worker, ())
    else:
        Serving.idle -= 1
    Serving.work.put(call)


def worker():
    while True:
        call = Serving.work.get()
        try:
            value = copy_context().run(call.start)
            if hasattr(value, "__await__"):
                value = run_alone(value)
        except BaseException as error:
            call.fail(error)
        else:
            call.end(value)
        Serving.idle += 1


def run_alone(coroutine):
    """Awaits what a plain function returned, in a loop of its thread's own."""
    import asyncio

    async def it():
        return await coroutine

    return asyncio.run(it())


def cancel(id):
    task = Serving.running.get(id)
    if task is not None:
        Serving.cancelled.add(id)
        task.cancel()


def use_loop():
    import asyncio

    Serving.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(Serving.loop)


def serve_all(messages):
    """Serves these messages and all that follow."""
    while True:
        try:
            for message in messages:
                serve(message)
            while Serving.loop is None:
                for message in received():
                    serve(message)
            serve_in_loop()
        except BaseException:
            pass  # A tool's signal handler, or a task it left behind, raised here.
        messages = ()


def serve_in_loop():
    def readable():
        for message in received():
            serve(message)

    Serving.loop.add_reader(Wire.descriptor, readable)
    Serving.loop.run_forever()
    if Serving.loop.is_closed():
        leave(1)


def main():
    import faulthandler

    first, messages = connect()
    # To descriptor 2: where it was when it died of a signal.
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=False)
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    if first["mode"] == "serve":
        serve_all(messages)
    serve_descriptions(messages)


main()
