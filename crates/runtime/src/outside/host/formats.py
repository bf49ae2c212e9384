"""Which tools does a Python file hold, and how is each of them called?

People have written tools for four systems, in these formats, and their files work unchanged. In this order a file is
asked for them; the first that it has is the one:

    navi              `name`, `description`, `parameters` and `async def execute(params)` in the module
    hyperagents       `tool_info()` and `tool_function(**arguments)` in the module
    navi-class        subclasses of `navi.tools.base.Tool` that the file defines
    terrarium         subclasses of `kohakuterrarium.modules.tool.base.BaseTool` that the file defines, and functions
    terrarium-function    that `kohakuterrarium.modules.tool.function.tool` decorates

A file may say more of a tool than its system asks for, in the module or in the class: `touches` (a list), and
`timeout_seconds`, `manual`.
"""

# A description is sent with every request to a model.
LONGEST_DESCRIPTION = 16 * 1024
LONGEST_NAME = 64


class Tool:
    """One tool of the loaded file."""

    def __init__(self, described, begin, read, waits):
        # What haft is told of it.
        self.described = described
        # From the arguments and the Call: a result, or a coroutine that gives one.
        self.begin = begin
        # From a result: what haft is told of the call.
        self.read = read
        # It is written to be awaited, in the process's loop. Otherwise each call has a thread.
        self.waits = waits


class Loaded:
    """The one file that this process serves."""

    name = path = folder = workspace = source = None
    module = None


def load(message):
    """Runs the file. Returns the tools in it, or raises what is wrong with it."""
    path = message["path"]
    stem = path.rpartition("/")[2]
    stem = stem[:-3] if stem.endswith(".py") else stem
    Loaded.path, Loaded.folder, Loaded.workspace = path, message["folder"], message["workspace"]
    Loaded.source = message["source"]
    sys.argv[:] = [path]
    sys.dont_write_bytecode = True
    if Loaded.folder not in sys.path:
        # Last: a tool that is called `calendar` or `wikipedia` is not what the others import by that name.
        sys.path.append(Loaded.folder)
    module = new_module(stem)
    exec(compile(Loaded.source, path, "exec", dont_inherit=True), module.__dict__)
    # What it put into `sys.modules` in its own place counts, as in any import.
    Loaded.module = sys.modules.get(module.__name__, module)
    return recognised(Loaded.module)


def new_module(stem):
    """The module of the file, before it has run."""
    package = "navi.tools" if "from .." in Loaded.source else "tools"
    Loaded.name = "%s.%s" % (package, stem)
    module = type(sys)(Loaded.name)
    module.__file__ = Loaded.path
    module.__package__ = package
    module.__builtins__ = builtins
    sys.modules[Loaded.name] = module
    seed_lines()
    return module


def seed_lines():
    """Lets tracebacks show the lines that run, whatever the file holds by then."""
    linecache = sys.modules.get("linecache")
    if linecache:
        source = Loaded.source
        linecache.cache[Loaded.path] = (len(source), None, source.splitlines(True), Loaded.path)


def recognised(module):
    tools = navi(module)
    if not tools:
        raise Broken("no tool in it")
    return tools


def navi(module):
    """The module itself."""
    fields = vars(module)
    execute, parameters = fields.get("execute"), fields.get("parameters")
    is_one = (
        isinstance(fields.get("name"), str)
        and isinstance(fields.get("description"), str)
        and isinstance(parameters, dict)
        and callable(execute)
    )
    if not is_one:
        return []
    described = describe("navi", "", fields["name"], fields["description"], parameters, fields.get)
    return [Tool(described, lambda arguments, call: execute(arguments), plain_result, is_coroutine_function(execute))]


def describe(format, entry, name, description, schema, field):
    """What haft is told of a tool; `field` gives what the file says of it under a name, or None."""
    notes = []
    encode(schema)
    return {
        "name": name,
        "description": description,
        "schema": schema,
        "format": format,
        "entry": entry,
        "touches": field("touches"),
        "timeout_seconds": field("timeout_seconds"),
        "manual": field("manual"),
        "notes": notes,
    }


def is_coroutine_function(it):
    it = getattr(it, "__func__", it)
    code = getattr(it, "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)


def plain_result(value):
    """What is said of what a function returned: it should be a string."""
    if isinstance(value, str):
        return succeeded([text_part(value)])
    if value is None:
        return failed("it returned None: a tool returns a string")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return failed("it returned bytes: a tool returns a string")
    text = encode(value)
    note = "it returned %s, not a string: given as JSON" % type(value).__name__
    return succeeded([text_part(text)], value if isinstance(value, dict) else None, notes=[note])


def text_part(text):
    return {"type": "text", "text": text}


def succeeded(parts, structured=None, exit=None, notes=()):
    return {"ok": True, "parts": parts, "structured": structured, "exit": exit, "notes": list(notes)}


def failed(error, traceback="", parts=()):
    return {"ok": False, "error": error, "traceback": traceback, "parts": list(parts)}
