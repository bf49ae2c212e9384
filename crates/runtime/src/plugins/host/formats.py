"""Which tools does a Python file hold, and how is each of them called?

People have written tools for four systems, in these formats, and their files work unchanged. In this order a file is
asked for them; the first that it has is the one, and a note names the others:

    navi              `name`, `description`, `parameters` and `async def execute(params)` in the module
    hyperagents       `tool_info()` and `tool_function(**arguments)` in the module (and DGM's, which are the same)
    navi-class        subclasses of `navi.tools.base.Tool` that the file defines
    terrarium         subclasses of `kohakuterrarium.modules.tool.base.BaseTool` that the file defines or registers,
    terrarium-function    and functions that `kohakuterrarium`'s `@tool` decorates

Every `execute` may be a coroutine function or a plain one. A file may say more of a tool than its system asks for, in
the module or in the class: `touches` (a list of strings), `timeout_seconds`, `manual`,
`manual_first` (True: it is called only once its manual was read).
"""

# A description is sent with every request to a model.
LONGEST_DESCRIPTION = 16 * 1024
LONGEST_MANUAL = 256 * 1024
LONGEST_CONTRIBUTION = 2000
LONGEST_SCHEMA = 64 * 1024
DEEPEST_SCHEMA = 50
LONGEST_NAME = 64
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
PARAMETERS_OF_ANY = {
    "type": "object",
    "properties": {"content": {"type": "string", "description": "What the tool is given."}},
}


class Tool:
    """One tool of the loaded file."""

    def __init__(self, described, begin, waits, read=outcome):
        # What haft is told of it.
        self.described = described
        # From the arguments and the Call: a result, or a coroutine that gives one.
        self.begin = begin
        # It is written to be awaited, in the process's loop. Otherwise each call has a thread.
        self.waits = waits
        # From a result: what haft is told of the call.
        self.read = read


class Loaded:
    """The one file that this process runs."""

    name = path = folder = workspace = session = ""
    source = ""
    settings = None
    # What it gave to `register_builtin`, by name.
    registered = {}


def load(message):
    """Runs the file. Returns the tools in it, or raises what is wrong with it."""
    path = message["path"]
    Loaded.path, Loaded.folder, Loaded.workspace = path, message["folder"], message["workspace"]
    Loaded.session, Loaded.settings = message.get("session"), message.get("settings")
    # As Python reads a file: a mark of the byte order is not part of it.
    Loaded.source = message["source"].lstrip("\ufeff")
    sys.argv[:] = [path]
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Shims)
    if message.get("beside") is not None:
        Beside.files = {it["name"]: it for it in message["beside"]}
        sys.meta_path.append(Beside)
    elif Loaded.folder not in sys.path:
        # Last: a tool that is called `calendar` or `wikipedia` is not what the others import by that name.
        sys.path.append(Loaded.folder)
    to_workspace()
    module = new_module(path)
    exec(compiled(Loaded.source, path), module.__dict__)
    seed_lines()
    # What it put into `sys.modules` in its own place counts, as in any import.
    return recognised(sys.modules.get(Loaded.name) or module)


def compiled(source, path, flags=0):
    """The code of a source. Python looks up the line of some syntax errors in the file, which may hold another."""
    try:
        return compile(source, path, "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        lines = source.split("\n")
        if error.filename == path and 0 < (error.lineno or 0) <= len(lines):
            error.text = lines[error.lineno - 1]
        raise


def to_workspace():
    """Relative paths are the workspace's, also after a call that changed the working folder."""
    try:
        chdir(Loaded.workspace)
    except OSError:
        pass


def new_module(path):
    """The module of the file, before it has run."""
    stem = path.rpartition("/")[2]
    stem = stem[:-3] if stem.endswith(".py") else stem
    # In a package, so that it is not `calendar` to others, and relative imports work. Those that go further up are
    # what navi's own tools have.
    package = "navi.tools" if "from .." in Loaded.source else "tools"
    Loaded.name = "%s.%s" % (package, stem)
    __import__(package)
    spec = ModuleSpec(Loaded.name, None, origin=path)
    spec.has_location = True
    module = type(sys)(Loaded.name)
    module.__spec__, module.__file__, module.__package__ = spec, path, package
    module.__builtins__ = builtins
    sys.modules[Loaded.name] = module
    return module


def seed_lines():
    """Lets tracebacks show the lines that run, whatever the file holds by then."""
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        source = Loaded.source
        linecache.cache[Loaded.path] = (len(source), None, source.splitlines(True), Loaded.path)


def recognised(module):
    """The tools in a module that has run."""
    found = [(label, make) for label, has, make in FORMATS if has(module)]
    if not found:
        raise Broken("there is no tool in it. " + nearly(vars(module)))
    tools = found[0][1](module)
    if len(found) > 1:
        others = " and ".join(label for label, _ in found[1:])
        for it in tools:
            it.described["notes"].append("the file also holds %s: only %s is used" % (others, found[0][0]))
    names = [it.described["name"] for it in tools]
    for name in names:
        if names.count(name) > 1:
            raise Broken("two tools in it are called `%s`" % name)
    return tools


def nearly(fields):
    """What a file lacks to be one of those that need no imports."""
    wanted = (
        ("name", "`name`, a string", str),
        ("description", "`description`, a string", str),
        ("parameters", "`parameters`, a dict", dict),
    )
    lacks = [text for name, text, kind in wanted if not isinstance(fields.get(name), kind)]
    if not callable(fields.get("execute")):
        lacks.append("`async def execute(params)`")
    functions = [name for name in ("tool_info", "tool_function") if callable(fields.get(name))]
    if len(functions) == 1:
        missing = "tool_function" if functions == ["tool_info"] else "tool_info"
        return "It has `%s()`, but no `%s()`" % (functions[0], missing)
    if len(lacks) == 4:
        return "A tool has `name`, `description`, `parameters` and `async def execute(params)` at the top level"
    return "It lacks " + ", ".join(lacks)


def describe(format, entry, name, description, schema, field):
    """What haft is told of a tool; `field` gives what the file says of it under a name, or None."""
    notes = []
    # What it is without the tool's own types.
    name, schema = checked_name(name), pure(checked_schema(schema), "the schema of its parameters")
    schema.setdefault("type", "object")
    return {
        "name": name,
        "description": checked_description(description, notes),
        "schema": schema,
        "format": format,
        "entry": entry,
        "touches": checked_touches(field("touches")),
        "timeout_seconds": checked_timeout(field("timeout_seconds")),
        "manual": checked_manual(field("manual")),
        "manual_first": field("manual_first") is True,
        "contribution": None,
        "mode": None,
        "notes": notes,
    }


def pure(value, what):
    try:
        text = encode(value)
        if len(text) > LONGEST_SCHEMA:
            raise Unfit("it takes %d kB as JSON; %d kB is the most" % (len(text) >> 10, LONGEST_SCHEMA >> 10))
        pure = decode(text)
    except Unfit as error:
        raise Broken("%s can't be given to a model: %s" % (what, error)) from None
    if is_deeper(pure, DEEPEST_SCHEMA):
        raise Broken("%s can't be given to a model: it is nested more than %d deep" % (what, DEEPEST_SCHEMA))
    return pure


def is_deeper(value, most):
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return most < 0 or any(is_deeper(it, most - 1) for it in inner)


def checked_name(name):
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not NAME_CHARACTERS.issuperset(name):
        shown = cut(readable(repr(name)), 2 * LONGEST_NAME)
        raise Broken("%s can't be the name of a tool: it has 1 to 64 letters, digits, `_` and `-`" % shown)
    return name


def checked_description(text, notes):
    if not isinstance(text, str):
        raise Broken("its description is %s, not a string" % kind_of(text))
    if not text.strip():
        notes.append("it has no description: a model can't know when to use it")
    if len(text) > LONGEST_DESCRIPTION:
        notes.append("its description has %d characters; a model is shown %d" % (len(text), LONGEST_DESCRIPTION))
        text = text[:LONGEST_DESCRIPTION]
    return clean(text)


def checked_schema(schema):
    if not isinstance(schema, dict):
        raise Broken("its parameters are %s, not the JSON schema of an object" % kind_of(schema))
    if schema.get("type", "object") != "object":
        raise Broken("its parameters are the schema of %s, not of an object" % cut(repr(schema["type"]), 100))
    return schema


def checked_touches(touches):
    if touches is None:
        return None
    if isinstance(touches, (list, tuple)) and all(isinstance(it, str) for it in touches):
        return list(touches)
    raise Broken("`touches` is not a list of strings such as \"read {path}\", \"net HOST\"")


def checked_timeout(seconds):
    if seconds is None:
        return None
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < 1e9:
        return seconds
    raise Broken("`timeout_seconds` is %s, not a number of seconds" % cut(readable(repr(seconds)), 100))


def checked_manual(text):
    return clean(text[:LONGEST_MANUAL]) if isinstance(text, str) and text.strip() else None


def checked_contribution(it, notes):
    """What a tool adds to the system prompt, and where it stands among the others; None for nothing."""
    try:
        text = it.prompt_contribution()
    except Exception as error:
        notes.append("its prompt_contribution() failed, so it adds nothing to the prompt: " + readable(error))
        return None
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        notes.append("its prompt_contribution() returned %s, so it adds nothing to the prompt" % kind_of(text))
        return None
    if len(text) > LONGEST_CONTRIBUTION:
        notes.append("its prompt_contribution() has %d characters; the prompt takes %d" % (len(text), LONGEST_CONTRIBUTION))
        text = text[:LONGEST_CONTRIBUTION]
    bucket = it.prompt_contribution_bucket
    if bucket not in ("first", "normal", "last"):
        notes.append("its prompt_contribution_bucket is %s, not first, normal or last" % cut(readable(repr(bucket)), 100))
        bucket = "normal"
    return {"bucket": bucket, "text": clean(text.strip())}


def flags(it):
    """What the code of a function says of it; nothing, where it has none."""
    while hasattr(it, "func") and not hasattr(it, "__code__"):
        it = it.func  # functools.partial
    code = getattr(getattr(it, "__func__", it), "__code__", None)
    return 0 if code is None else code.co_flags


def is_generator_function(it):
    """Does it make an asynchronous generator?"""
    return bool(flags(it) & 0x200)


def is_coroutine_function(it):
    """Is what it gives awaited in the loop? An asynchronous generator is, step by step."""
    return bool(flags(it) & 0x80) or is_generator_function(it)


def lasting(function, mode=None):
    """How a result comes back, where that is not within the turn: a generator yields results, a mode may say more."""
    if is_generator_function(function):
        return "stateful"
    return "background" if getattr(mode, "value", mode) == "background" else None


# navi


def is_navi(module):
    fields = vars(module)
    return (
        isinstance(fields.get("name"), str)
        and isinstance(fields.get("description"), str)
        and isinstance(fields.get("parameters"), dict)
        and callable(fields.get("execute"))
    )


def navi_module(module):
    fields = vars(module)
    execute = fields["execute"]
    it = describe("navi", "", fields["name"], fields["description"], fields["parameters"], fields.get)
    it["mode"] = lasting(execute)
    return [Tool(it, lambda arguments, call: execute(arguments), is_coroutine_function(execute))]


def own_classes(module, base):
    """The classes that this file defines below a base, in its order."""
    found = []
    for it in list(vars(module).values()):
        if isinstance(it, type) and issubclass(it, base) and it.__module__ == Loaded.name and it not in found:
            if not getattr(it, "__abstractmethods__", None):
                found.append(it)
    return found


def field_of_class(it):
    """What an instance says under a name, or its module for all in it."""

    def field(name):
        for place in (it, sys.modules.get(Loaded.name)):
            value = getattr(place, name, None)
            if value is not None and not callable(value):
                return value
        return None

    return field


def navi_classes(module):
    base = sys.modules.get("navi.tools.base")
    # One without a name is what others in the file are made from.
    return [it for it in own_classes(module, base.Tool) if it.name] if base else []


def navi_class_tools(module):
    return [navi_class_tool(it) for it in navi_classes(module)]


def navi_class_tool(cls):
    it = cls()
    said = describe("navi-class", cls.__name__, it.name, it.description, it.parameters, field_of_class(it))
    said["mode"] = lasting(it.execute)
    return Tool(said, lambda arguments, call: it.execute(arguments), is_coroutine_function(it.execute))


# HyperAgents and DGM


def is_hyperagents(module):
    return callable(vars(module).get("tool_info")) and callable(vars(module).get("tool_function"))


def hyperagents_module(module):
    fields = vars(module)
    info, function = fields["tool_info"](), fields["tool_function"]
    if not isinstance(info, dict):
        raise Broken("tool_info() returned %s, not a dict" % kind_of(info))
    lacks = [name for name in ("name", "description", "input_schema") if name not in info]
    if lacks:
        raise Broken("what tool_info() returned lacks " + ", ".join("`%s`" % it for it in lacks))

    def field(name):
        return fields.get(name, info.get(name))

    said = describe("hyperagents", "", info["name"], info["description"], info["input_schema"], field)
    said["mode"] = lasting(function)
    begin = lambda arguments, call: function(**arguments)
    return [Tool(said, begin, is_coroutine_function(function), outcome_of_hyperagents)]


# KohakuTerrarium


def terrarium_classes(module):
    base = sys.modules.get("kohakuterrarium.modules.tool.base")
    if not base:
        return []
    function = sys.modules.get("kohakuterrarium.modules.tool.function")
    not_these = (base.BaseTool, function.FunctionTool if function else None)
    found = own_classes(module, base.BaseTool)
    found.extend(it for it in Loaded.registered.values() if it.__module__ == Loaded.name and it not in found)
    # One without a name is what others in the file are made from.
    is_named = lambda it: it.tool_name is not base.BaseTool.tool_name or it in Loaded.registered.values()
    return [it for it in found if it not in not_these and is_named(it)]


def terrarium_functions(module):
    """The decorated functions of this file, by the names that they have in it."""
    made = sys.modules.get("kohakuterrarium.modules.tool.function")
    found = {}
    for name, it in list(vars(module).items()) if made else ():
        if isinstance(it, made.FunctionTool) and not is_another_files(it) and it not in found.values():
            found[name] = it
    return found


def is_another_files(it):
    """It was imported from the file that made it."""
    name = getattr(it._fn, "__module__", None)
    home = sys.modules.get(name)
    return name != Loaded.name and home is not None and any(value is it for value in list(vars(home).values()))


def is_terrarium(module):
    return bool(terrarium_classes(module) or terrarium_functions(module))


def terrarium_tools(module):
    classes = terrarium_classes(module)
    tools = [terrarium_class_tool(it) for it in classes if not it.is_provider_native]
    tools.extend(terrarium_function_tool(name, it) for name, it in terrarium_functions(module).items())
    if not tools:
        raise Broken("%s is provider-native: the model's provider runs it, there is nothing here" % classes[0].__name__)
    return tools


def terrarium_class_tool(cls):
    base = sys.modules["kohakuterrarium.modules.tool.base"].BaseTool
    it = cls()
    registered = [name for name, other in Loaded.registered.items() if other is cls]
    name = registered[0] if cls.tool_name is base.tool_name else it.tool_name
    schema = it.get_parameters_schema() if hasattr(it, "get_parameters_schema") else PARAMETERS_OF_ANY
    own = field_of_class(it)

    def field(key):
        if key == "touches" and own(key) is None and vars(cls).get("is_concurrency_safe") is True:
            return []
        if key == "manual" and cls.get_full_documentation is not base.get_full_documentation:
            return it.get_full_documentation()
        if key == "manual_first" and it.require_manual_read is True:
            return True
        return own(key)

    said = describe("terrarium", cls.__name__, name, it.description, schema, field)
    said["contribution"] = checked_contribution(it, said["notes"])
    # Its `_execute` rather than the base's `execute` around it: what it raises keeps its traceback.
    function = it._execute if cls.execute is base.execute else it.execute
    # The base's own says BACKGROUND of every tool; only a tool that says so itself is meant.
    is_said = getattr(cls, "execution_mode", None) is not base.execution_mode
    said["mode"] = lasting(function, it.execution_mode if is_said else None)
    with_context = wants_context(it, function)

    def begin(arguments, call):
        return function(arguments, context=terrarium_context(call)) if with_context else function(arguments)

    return Tool(said, begin, is_coroutine_function(function))


def terrarium_function_tool(name, it):
    schema, field = it.get_parameters_schema(), field_of_class(it)
    said = describe("terrarium-function", name, it.tool_name, it.description, schema, field)
    said["manual"] = checked_manual(it._doc) if len(it._doc.splitlines()) > 1 else said["manual"]
    said["mode"] = lasting(it._fn, it.execution_mode)

    def begin(arguments, call):
        given = it.bound(arguments, terrarium_context(call) if it.needs_context else None)
        # What is not a dict says what is missing.
        return it._fn(**given) if isinstance(given, dict) else given

    async def begin_and_wait(arguments, call):
        value = begin(arguments, call)
        return await value if hasattr(value, "__await__") else value

    if is_generator_function(it._fn):
        return Tool(said, begin, True, outcome_of_function)
    waits = is_coroutine_function(it._fn)
    return Tool(said, begin_and_wait if waits else begin, waits, outcome_of_function)


class TerrariumSession:
    """What the tools of one session have in common, as a call reaches it."""

    # What only this process keeps, by session.
    extras = {}

    def __init__(self, call):
        guard = __import__("kohakuterrarium.utils.file_guard", fromlist=["x"])
        self.id = self.key = call.session
        self.call, self.tui = call, None
        self.registry = None
        self.extra = self.extras.setdefault(call.session, {})
        self.scratchpad = Scratchpad(call)
        self.read_state = guard.FileReadState(call)
        # The sandbox says what is outside.
        self.path_guard = guard.PathBoundaryGuard(Loaded.workspace, "off")

    @property
    def channels(self):
        """The private channels of the session."""
        if self.registry is None:
            self.registry = channel_registry(self.call, False)
        return self.registry


class Job:
    """A job as it was when it was asked for."""

    def __init__(self, known):
        self.__dict__.update(known)

    @property
    def duration(self):
        return self.seconds

    @property
    def is_complete(self):
        return self.state in ("done", "error", "cancelled")

    @property
    def is_running(self):
        return self.state == "running"


class JobResult:
    """What came of a job."""

    exit_code = None

    def __init__(self, job_id, output, error):
        self.job_id, self.output, self.error, self.metadata = job_id, output, error, {}

    @property
    def success(self):
        return self.error is None

    def get_text_output(self):
        return self.output


class JobStore:
    """The session's jobs, to be looked at: haft keeps them."""

    def __init__(self, call):
        self.call = call

    def get_all_statuses(self):
        return [Job(it) for it in ask(self.call, "jobs")]

    def get_status(self, job_id):
        return next((it for it in self.get_all_statuses() if it.job_id == job_id), None)

    def get_result(self, job_id):
        job = self.get_status(job_id)
        return JobResult(job_id, **job.result) if job is not None and job.result is not None else None

    def get_running_jobs(self):
        return [it for it in self.get_all_statuses() if it.is_running]

    def get_pending_jobs(self):
        return [it for it in self.get_all_statuses() if it.state == "pending"]

    def get_completed_jobs(self):
        return [it for it in self.get_all_statuses() if it.is_complete]


def terrarium_context(call):
    from pathlib import Path

    session, known = TerrariumSession(call), ask(call, "context")
    base = sys.modules["kohakuterrarium.modules.tool.base"]
    workspace = Path(Loaded.workspace)
    return base.ToolContext(
        agent_name=known["agent"] or "haft",
        tool_format=known["tool_format"],
        session=session,
        environment=TerrariumEnvironment(call),
        creature_id=known["creature"],
        working_dir=workspace,
        file_read_state=session.read_state,
        path_guard=session.path_guard,
        job_store=JobStore(call),
        agent=Agent(None, call),
    )


FORMATS = (
    ("navi's module", is_navi, navi_module),
    ("HyperAgents' functions", is_hyperagents, hyperagents_module),
    ("navi's classes", navi_classes, navi_class_tools),
    ("KohakuTerrarium's tools", is_terrarium, terrarium_tools),
)
