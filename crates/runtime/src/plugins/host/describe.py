"""What is in files that nobody has run yet, and is a new one fit to be a tool?

    {"op": "describe", "id", "path", "folder", "source", "workspace"}
        → {"op": "described", "id", "tools": […]}  or  {"op": "broken", "id", "error", "traceback"}
    {"op": "check", "id", "name", … as above}
        → {"op": "checked", "id", "tool": {…}}  or  {"op": "unfit", "id", "missing": […], "error", "traceback"}

Each file runs in a child that is forked for it, a few at once. This process never runs any of it, so that it is as it
was after whatever a file does: what dies, and what does not end, is told as what is wrong with that file.
"""

AT_ONCE = 4
SECONDS = 10
# How long before its end a child says where it is.
LAST_WORDS = 0.5
# What the library has that tools often import and that takes a while: imported here before the fork, once for all.
WARM = (
    "ast",
    "asyncio",
    "base64",
    "contextlib",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "email",
    "enum",
    "functools",
    "hashlib",
    "html",
    "http.client",
    "inspect",
    "json",
    "logging",
    "pathlib",
    "random",
    "re",
    "shutil",
    "socket",
    "sqlite3",
    "ssl",
    "string",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "traceback",
    "typing",
    "urllib.parse",
    "urllib.request",
    "uuid",
    "xml.etree.ElementTree",
)


class Child:
    """A process that runs one file, seen from its parent."""

    def __init__(self, message):
        self.message = message
        self.answer, answer = pipe()
        self.words, words = pipe()
        flush()
        self.pid = fork()
        if self.pid == 0:
            in_child(message, answer, words)
        for descriptor in (answer, words):
            close(descriptor)
        self.data = {self.answer: b"", self.words: b""}
        for descriptor in self.data:
            set_blocking(descriptor, False)
        self.until = time.monotonic() + SECONDS

    def take(self):
        """Takes what it has written."""
        for descriptor in self.data:
            try:
                while True:
                    chunk = read(descriptor, CHUNK)
                    self.data[descriptor] += chunk
                    if not chunk:
                        break
                    if len(self.data[descriptor]) > MOST_BYTES:
                        self.until = 0
                        break
            except OSError:
                pass  # There is no more for now.

    def line(self):
        """Its answer, once that is whole. What the file may have written to the pipe is before the token."""
        for line in self.data[self.answer].split(b"\n")[:-1]:
            _, token, found = line.partition(Wire.token + b" ")
            if token:
                return found
        return None

    def has_ended(self):
        # Not taken from the system: until then the number of its group is its own.
        return waitid(P_PID, self.pid, WEXITED | WNOHANG | WNOWAIT) is not None

    def end(self):
        """Ends it with all that it started. Returns how it ended, as the system says it."""
        for end_one in (killpg, kill):
            try:
                end_one(self.pid, 9)
            except OSError:
                pass
        status = waitpid(self.pid, 0)[1]
        for descriptor in self.data:
            close(descriptor)
        return status


def in_child(message, answer, words):
    """What the child does, which does not return."""
    import faulthandler

    setpgid(0, 0)
    Wire.descriptor, Wire.process = answer, getpid()
    faulthandler.enable(words)
    faulthandler.dump_traceback_later(SECONDS - LAST_WORDS, file=words)
    try:
        said = checked(message) if message["op"] == "check" else described(message)
        send(dict(said, id=message["id"]))
    except BaseException as error:
        send(refused(message, **told(error)))
    leave()


def described(message):
    return {"op": "described", "tools": [it.described for it in load(message)]}


def refused(message, error, traceback="", missing=()):
    """The answer that says what is wrong with the file."""
    said = {"id": message["id"], "error": error, "traceback": traceback}
    if message["op"] == "check":
        return dict(said, op="unfit", missing=list(missing))
    return dict(said, op="broken")


def serve_descriptions(messages):
    """Answers these messages and all that follow."""
    import gc
    from select import POLLIN, poll

    waiting, children, poller = [], [], poll()
    poller.register(Wire.descriptor, POLLIN)
    for message in messages:
        waiting = taken(message, waiting, children)
    while True:
        while waiting and len(children) < AT_ONCE:
            message = waiting.pop(0)
            warm(message["source"])
            gc.freeze()
            children.append(Child(message))
            for descriptor in children[-1].data:
                poller.register(descriptor, POLLIN)
        # Not only when something comes: what a child left behind may hold its pipes open.
        if any(descriptor == Wire.descriptor for descriptor, _ in poller.poll(50 if children else None)):
            for message in received():
                waiting = taken(message, waiting, children)
        for child in list(children):
            answer = answer_of(child)
            if answer is not None:
                children.remove(child)
                for descriptor in child.data:
                    poller.unregister(descriptor)
                status = child.end()
                put(b"%s %s\n" % (Wire.token, answer(status)))


def taken(message, waiting, children):
    """What waits when this has come, too."""
    if message["op"] != "cancel":
        return waiting + [message]
    for child in children:
        if child.message["id"] == message["id"]:
            child.until = 0
    return [it for it in waiting if it["id"] != message["id"]]


def answer_of(child):
    """How to answer for a child that is done, given how it ended; None if it is not done."""
    ended = child.has_ended()
    child.take()
    line = child.line()
    if line is not None:
        return lambda status: line
    if ended:
        return lambda status: encode(refused(child.message, died(child, status), last_words(child))).encode()
    if time.monotonic() >= child.until:
        return lambda status: encode(refused(child.message, hung(child), last_words(child))).encode()
    return None


def warm(source):
    """Imports what the file will, where that is the library's."""
    __import__("traceback")
    for name in WARM:
        if name in source and name not in sys.modules:
            __import__(name)


def died(child, status):
    if WIFSIGNALED(status):
        from signal import Signals

        try:
            name = Signals(WTERMSIG(status)).name
        except ValueError:
            name = "signal %d" % WTERMSIG(status)
        return "its process died of %s while it was imported%s" % (name, at_place(child))
    return "it ended its process with status %d while it was imported" % WEXITSTATUS(status)


def hung(child):
    if len(child.data[child.answer]) > MOST_BYTES:
        return "it wrote without end to where its answer belongs"
    return "it had not been imported after %d s%s" % (SECONDS, at_place(child))


def last_words(child):
    """Where it was when it died or hung, of which the system's part and ours say nothing."""
    lines = child.data[child.words].decode("utf-8", "replace").splitlines()
    return shortened([it for it in lines if OURS not in it and "<frozen importlib" not in it])


def at_place(child):
    """` at line 3, in load`: the innermost frame that is the file's."""
    start = '  File "%s", ' % child.message["path"]
    for line in child.data[child.words].decode("utf-8", "replace").splitlines():
        if line.startswith(start):
            return ": " + line[len(start) :]
    return ""


# Whether a file is fit: write_tool's rules


def checked(message):
    import ast

    name = message["name"]
    tree = compiled(message["source"].lstrip("\ufeff"), message["path"], ast.PyCF_ONLY_AST)
    missing = missing_in(tree, name)
    if missing:
        return refused(message, "it lacks some of what a tool needs: " + "; ".join(missing), missing=missing)
    tools = load(message)
    if len(tools) != 1 or tools[0].described["format"] != "navi":
        lacks = nearly(vars(sys.modules[Loaded.name]))
        return refused(message, "it has what a tool needs, but not once it has been imported. " + lacks)
    found = tools[0].described
    if found["name"] != name:
        return refused(message, "its name is `%s`, not `%s`" % (found["name"], name), missing=['`name = "%s"`' % name])
    return {"op": "checked", "tool": found}


def missing_in(tree, name):
    """All that the file lacks, each as it should be written."""
    values, functions = top_level(tree)
    lacks = ['`name` that does not begin with `_`'] if name.startswith("_") else []
    if "name" not in values:
        lacks.append('`name = "%s"`' % name)
    elif is_literal(values["name"]) and values["name"].value != name:
        at = values["name"]
        lacks.append('`name = "%s"`: line %d has %r' % (name, at.lineno, at.value))
    if "description" not in values:
        lacks.append('`description = "…"`: what it does and when to use it')
    elif is_literal(values["description"]) and not str(values["description"].value or "").strip():
        lacks.append('`description = "…"`: line %d has nothing in it' % values["description"].lineno)
    if "parameters" not in values:
        lacks.append('`parameters = {"type": "object", "properties": {…}}`')
    else:
        lacks.extend(wrong_parameters(values["parameters"]))
    if "execute" not in values:
        lacks.extend(wrong_execute(functions.get("execute")))
    return lacks


def top_level(tree):
    """What is assigned or imported at the top level, by name, and the functions."""
    import ast

    values, functions = {}, {}
    for it in tree.body:
        if isinstance(it, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[it.name] = it
        elif isinstance(it, (ast.Assign, ast.AnnAssign)) and it.value is not None:
            for target in it.targets if isinstance(it, ast.Assign) else [it.target]:
                names = [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]
                # In `name, description = …` neither is the whole value.
                values.update((name, it.value if len(names) == 1 else it) for name in names)
        elif isinstance(it, (ast.ImportFrom, ast.Import)):
            values.update((alias.asname or alias.name, it) for alias in it.names)
        elif isinstance(it, (ast.If, ast.Try, ast.With, ast.For)):
            # What is made in a branch is seen when it has been imported.
            within_values, within_functions = top_level(ast.Module([x for x in ast.iter_child_nodes(it)], []))
            values.update(within_values)
            functions.update(within_functions)
    return values, functions


def is_literal(node):
    return type(node).__name__ == "Constant"


def wrong_parameters(node):
    import ast

    try:
        value = ast.literal_eval(node)
    except ValueError:
        return []  # It is computed: what it is shows when the file has been imported.
    if isinstance(value, dict) and value.get("type") == "object" and isinstance(value.get("properties", {}), dict):
        return []
    wanted = '`parameters = {"type": "object", "properties": {…}}`'
    shown = cut(repr(value), 80) if not isinstance(value, dict) else "`type` %r" % (value.get("type"),)
    return ["%s, the JSON schema of an object: line %d has %s" % (wanted, node.lineno, shown)]


def wrong_execute(function):
    wanted = "`async def execute(params)`"
    if function is None:
        return [wanted]
    if type(function).__name__ != "AsyncFunctionDef":
        return ["%s: line %d has `def execute`, without `async`" % (wanted, function.lineno)]
    arguments = function.args
    places = len(getattr(arguments, "posonlyargs", [])) + len(arguments.args)
    needed = places - len(arguments.defaults)
    named = [it.arg for it, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is None]
    if named or needed > 1 or (places == 0 and not arguments.vararg):
        return ["%s, with one argument: line %d takes %d" % (wanted, function.lineno, needed + len(named))]
    return []
