"""What do files import that were written for another system, and what do they get here?

    navi.tools.base …                Tool, ToolResult and the variables of a call
    kohakuterrarium.modules.tool …   BaseTool, ToolResult, ToolContext, @tool and what goes with them
    agent.tools.X, tools.X           the other files of the folder of tools

These modules are ours whether or not the real packages are installed: the results of calls are read from them, and
the real ones import half of a framework. Everything else of a package, a module that is not listed in MODULES, comes
from the real one where that is installed. A module is built when it is first imported, so that a file pays only for
what it uses. `from .base import Tool`, as navi's own tools have it, works too: a file is a module of the package
`tools`, and where its folder has no such file, `tools.base` is `navi.tools.base`.
"""

ModuleSpec = type(sys.__spec__)


class Shims:
    """Finds and makes the modules of MODULES, and the other names of files of the folder."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in MODULES:
            spec = ModuleSpec(name, Shims, origin="haft", is_package=name in PACKAGES)
            if name in PACKAGES:
                spec.submodule_search_locations[:] = locations(name, path)
            return spec
        same = other_name(name)
        return None if same is None else ModuleSpec(name, Other(same))

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        fields = MODULES[module.__name__]()
        for it in fields.values():
            # A class says which module it is from, so that it can be pickled and is named as people know it.
            if isinstance(it, type) and it.__module__ == __name__:
                it.__module__, it.__qualname__ = module.__name__, it.__name__
        module.__dict__.update(fields)


class Other:
    """Gives a module that has another name already."""

    def __init__(self, same):
        self.same = same

    def create_module(self, spec):
        __import__(self.same)
        return sys.modules[self.same]

    def exec_module(self, module):
        module.__spec__ = ModuleSpec(module.__name__, None, origin=getattr(module, "__file__", None))


# The packages in which a file of the folder can be imported, and through which navi's own modules are reached.
ALIASES = frozenset(("tools", "agent.tools", "navi.tools"))


def other_name(name):
    """The name that a module has already which is imported by this one; None if it is to be found as any other."""
    package, _, last = name.rpartition(".")
    if package not in ALIASES:
        return None
    if last == Loaded.name.rpartition(".")[2]:
        same = Loaded.name
    elif in_folder(last):
        same = "tools." + last
    else:
        same = "navi.tools." + last
        if same not in MODULES:
            return None
    return None if same == name else same


def in_folder(name):
    """The folder of tools has a file or a package of this name."""
    place = "%s/%s" % (Loaded.folder, name)
    return is_file(place + ".py") or is_file(place + "/__init__.py")


def is_file(path):
    try:
        return stat(path).st_mode & 0o170000 == 0o100000
    except OSError:
        return False


def locations(name, path):
    """Where the other modules of a package are: in the folder of tools, in the real package."""
    found = [Loaded.folder] if name in ALIASES else []
    for finder in sys.meta_path:
        if finder is Shims:
            continue
        try:
            real = finder.find_spec(name, path)
        except Exception:
            continue
        if real is not None and real.submodule_search_locations:
            found.extend(real.submodule_search_locations)
            break
    return found


def nothing():
    return {}


def imported(name):
    """What a module has to give, without what Python put there."""
    __import__(name)
    return {key: it for key, it in vars(sys.modules[name]).items() if not key.startswith("__")}


# navi-1


def navi_base():
    from abc import ABC, abstractmethod
    from contextvars import ContextVar
    from dataclasses import dataclass, field
    from typing import Any, Dict, Optional

    class Tool(ABC):
        """A tool: a name, a description, a JSON schema of its parameters, and `execute`."""

        name = ""
        description = ""
        parameters: Dict[str, Any] = {"type": "object", "properties": {}}

        @abstractmethod
        async def execute(self, params):
            """Does the work."""

        def schema(self):
            return navi_schema(self.name, self.description, self.parameters)

    @dataclass
    class ToolResult:
        """What a call gave."""

        success: bool
        output: str = ""
        error: Optional[str] = None
        metadata: Dict[str, Any] = field(default_factory=dict)

        def to_message_content(self):
            if self.success or not self.error:
                return self.output
            return "%s\nError: %s" % (self.output, self.error) if self.output else "Error: %s" % self.error

    fields = {name: ContextVar(name, default=None) for name in NAVI_VARIABLES}
    fields.update(Tool=Tool, ToolResult=ToolResult)
    return fields


NAVI_VARIABLES = (
    "current_session_id",
    "current_event_sink",
    "current_stop_event",
    "current_model",
    "current_user_id",
    "current_user_role",
    "current_user_info",
)


def navi_schema(name, description, parameters):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def navi_internal():
    from dataclasses import dataclass
    from typing import Any, Optional

    @dataclass
    class ToolContext:
        """What navi tells a tool of the session it is called in."""

        session_id: Optional[str] = None
        user_id: Optional[str] = None
        user_role: Optional[str] = None
        user_info: Any = None
        model: Optional[str] = None
        event_sink: Any = None
        stop_event: Any = None

        @classmethod
        def current(cls):
            variables = sys.modules["navi.tools.base"]
            names = ("session_id", "user_id", "user_role", "user_info", "model", "event_sink", "stop_event")
            return cls(*[getattr(variables, "current_" + name).get() for name in names])

    return dict(imported("navi.tools.base"), ToolContext=ToolContext)


def navi_config():
    class Settings:
        """navi's settings, as far as they have a meaning here. Any other is None."""

        tools_dir = Loaded.folder
        fs_allowed_paths = "*"
        terminal_allowed_commands = "*"

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return None

    settings = Settings()
    for name, value in (Loaded.settings or {}).items():
        setattr(settings, name, value)
    return {"Settings": Settings, "settings": settings, "get_settings": lambda: settings}


def navi_llm():
    from dataclasses import dataclass, field
    from typing import Any, Dict

    @dataclass
    class ToolSchema:
        """A tool as a model is told of it."""

        name: str = ""
        description: str = ""
        parameters: Dict[str, Any] = field(default_factory=dict)
        type: str = "function"
        function: Dict[str, Any] = field(default_factory=dict)

        def to_dict(self):
            return navi_schema(self.name, self.description, self.parameters)

    return {"ToolSchema": ToolSchema}


class EventSink:
    """navi's queue of events of a call: what a tool puts there is its progress."""

    def __init__(self, progress):
        self.progress = progress

    def put_nowait(self, event):
        get = event.get if isinstance(event, dict) else lambda name, default=None: getattr(event, name, default)
        message = event if isinstance(event, str) else get("message") or get("text") or get("content") or get("type")
        self.progress(str(message or event), get("progress"))

    async def put(self, event):
        self.put_nowait(event)

    def qsize(self):
        return 0

    def empty(self):
        return True

    def full(self):
        return False


# KohakuTerrarium


def terrarium_base():
    from dataclasses import dataclass, field
    from enum import Enum
    from pathlib import Path
    from typing import Any, Dict, List, Optional, Protocol, Union, runtime_checkable

    class ExecutionMode(Enum):
        DIRECT = "direct"
        BACKGROUND = "background"
        STATEFUL = "stateful"

    @dataclass
    class ToolConfig:
        timeout: float = 60.0
        max_output: int = 262144
        working_dir: Optional[str] = None
        env: Dict[str, str] = field(default_factory=dict)
        notify_controller_on_background_complete: bool = True
        doc_mode: Optional[str] = None
        extra: Dict[str, Any] = field(default_factory=dict)
        request_replay: Any = None

    @dataclass
    class ToolContext:
        """Where a call runs, and for whom."""

        agent_name: str = "haft"
        session: Any = None
        working_dir: Path = field(default_factory=Path.cwd)
        memory_path: Optional[Path] = None
        environment: Any = None
        tool_format: str = "native"
        agent: Any = None
        file_read_state: Any = None
        path_guard: Any = None
        runtime_services: Any = None
        creature_id: Optional[str] = None

        @property
        def channels(self):
            return getattr(self.session, "channels", None)

        @property
        def scratchpad(self):
            return getattr(self.session, "scratchpad", None)

        def resolve_path(self, path):
            # An absolute path stays what it is.
            return (Path(self.working_dir) / Path(path).expanduser()).resolve()

    def resolve_tool_path(path, context=None):
        return context.resolve_path(path) if context else Path(path).expanduser().resolve()

    @dataclass
    class ToolResult:
        """What a call gave: text or parts."""

        output: Union[str, List[Any]] = ""
        exit_code: Optional[int] = None
        error: Optional[str] = None
        metadata: Dict[str, Any] = field(default_factory=dict)

        @property
        def success(self):
            return self.error is None and self.exit_code in (None, 0)

        def is_multimodal(self):
            return isinstance(self.output, list)

        def get_text_output(self):
            if isinstance(self.output, str):
                return self.output
            return "\n".join(it.text for it in self.output if getattr(it, "type", None) == "text")

        def has_images(self):
            return self.is_multimodal() and any(getattr(it, "type", None) == "image_url" for it in self.output)

    @runtime_checkable
    class Tool(Protocol):
        """Anything that can be called as a tool."""

        @property
        def tool_name(self):
            ...

        @property
        def description(self):
            ...

        @property
        def execution_mode(self):
            ...

        async def execute(self, args, context=None):
            ...

    class BaseTool:
        """A tool: its name, its description, and `_execute`."""

        needs_context = False
        require_manual_read = False
        is_provider_native = False
        request_replay = None
        provider_support = frozenset()
        is_concurrency_safe = True
        supports_background = False
        media_policy = None
        prompt_contribution_bucket = "normal"

        def __init__(self, config=None, **options):
            self.config = config or ToolConfig(extra=options)
            self._manual_read = False

        @property
        def tool_name(self):
            raise NotImplementedError("%s has no tool_name" % type(self).__name__)

        @property
        def description(self):
            raise NotImplementedError("%s has no description" % type(self).__name__)

        @property
        def execution_mode(self):
            return ExecutionMode.BACKGROUND

        async def execute(self, args, context=None):
            # Not what the host calls, which wants to see what was raised.
            try:
                result = self._execute(args, context=context) if wants_context(self, self._execute) else self._execute(args)
                if hasattr(result, "__await__"):
                    result = await result
                return ToolResult(output=result, exit_code=0) if isinstance(result, str) else result
            except Exception as error:
                return ToolResult(error=str(error) or type(error).__name__)

        async def _execute(self, args, **others):
            raise NotImplementedError("%s has no _execute" % type(self).__name__)

        def get_full_documentation(self, tool_format="native"):
            return "# %s\n\n%s\n" % (self.tool_name, self.description)

        def prompt_contribution(self):
            return None

    @dataclass
    class ToolInfo:
        tool_name: str
        description: str
        execution_mode: ExecutionMode = ExecutionMode.BACKGROUND
        documentation: str = ""

        @classmethod
        def from_tool(cls, it):
            documented = getattr(it, "get_full_documentation", str)
            return cls(it.tool_name, it.description, it.execution_mode, documented())

        def to_prompt_line(self):
            return "- %s: %s" % (self.tool_name, self.description)

    return {
        "BaseTool": BaseTool,
        "ExecutionMode": ExecutionMode,
        "Tool": Tool,
        "ToolConfig": ToolConfig,
        "ToolContext": ToolContext,
        "ToolInfo": ToolInfo,
        "ToolResult": ToolResult,
        "resolve_tool_path": resolve_tool_path,
    }


def wants_context(tool, function):
    """Whether a function of a tool is to be given `context=`."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return bool(tool.needs_context)
    takes_any = code.co_flags & 0x08
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return "context" in named or bool(takes_any and tool.needs_context)


def terrarium_tool():
    names = ("Tool", "BaseTool", "ToolConfig", "ToolContext", "ToolResult", "ToolInfo", "ExecutionMode")
    base = imported("kohakuterrarium.modules.tool.base")
    return {name: base[name] for name in names}


def terrarium_function():
    base = imported("kohakuterrarium.modules.tool.base")
    ExecutionMode, ToolResult = base["ExecutionMode"], base["ToolResult"]

    class FunctionTool(base["BaseTool"]):
        """A function as a tool: its signature is the schema."""

        is_concurrency_safe = True

        def __init__(self, fn, name=None, description=None, execution_mode=ExecutionMode.DIRECT, **options):
            import inspect

            super().__init__(**options)
            self._fn = fn
            self._name = name or fn.__name__
            self._doc = inspect.getdoc(fn) or ""
            self._description = description or (self._doc.splitlines() or ["call " + self._name])[0]
            self._execution_mode = execution_mode
            self._signature = inspect.signature(fn)
            self.needs_context = "context" in self._signature.parameters

        def __call__(self, *args, **named):
            return self._fn(*args, **named)

        @property
        def tool_name(self):
            return self._name

        @property
        def description(self):
            return self._description

        @property
        def execution_mode(self):
            return self._execution_mode

        def get_parameters_schema(self):
            return signature_schema(self._fn, self._signature, self._doc)

        def get_full_documentation(self, tool_format="native"):
            return self._doc or super().get_full_documentation(tool_format)

        def bound(self, args, context):
            """The arguments of the function, or a ToolResult that says what is missing."""
            given = {}
            for name, it in self._signature.parameters.items():
                if name == "context":
                    given[name] = context
                elif it.kind is it.VAR_KEYWORD:
                    given.update((key, value) for key, value in args.items() if key not in self._signature.parameters)
                elif it.kind is not it.VAR_POSITIONAL and name in args:
                    given[name] = args[name]
                elif it.kind is not it.VAR_POSITIONAL and it.default is it.empty:
                    return ToolResult(error="missing required argument: " + name)
            return given

        async def _execute(self, args, context=None):
            given = self.bound(args, context)
            if isinstance(given, ToolResult):
                return given
            value = self._fn(**given)
            if hasattr(value, "__await__"):
                value = await value
            return value if isinstance(value, ToolResult) else ToolResult("" if value is None else str(value))

    def tool(fn=None, *, name=None, description=None, execution_mode=ExecutionMode.DIRECT, **options):
        def made(it):
            return FunctionTool(it, name=name, description=description, execution_mode=execution_mode, **options)

        return made if fn is None else made(fn)

    return {"FunctionTool": FunctionTool, "tool": tool}


def signature_schema(function, signature, doc):
    """The JSON schema of a function's arguments."""
    import typing

    try:
        hints = typing.get_type_hints(function, **({"include_extras": True} if sys.version_info >= (3, 9) else {}))
    except Exception:
        # A hint that is a name which means nothing when it is looked up.
        hints = getattr(function, "__annotations__", {})
    said = documented_arguments(doc)
    properties, required, others = {}, [], False
    for name, it in signature.parameters.items():
        if it.kind is it.VAR_KEYWORD:
            others = True
        if name == "context" or it.kind in (it.VAR_KEYWORD, it.VAR_POSITIONAL):
            continue
        schema = hint_schema(hints.get(name, str))
        if name in said:
            schema.setdefault("description", said[name])
        if it.default is it.empty:
            required.append(name)
        elif isinstance(it.default, (str, int, float, bool, list, dict)):
            schema["default"] = it.default
        properties[name] = schema
    whole = {"type": "object", "properties": properties, "required": required}
    return dict(whole, additionalProperties=True) if others else whole


PLAIN_HINTS = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
    dict: {"type": "object"},
    type(None): {"type": "null"},
}


def hint_schema(hint):
    """The schema of a type hint; one that says nothing we know is a string, as in the original."""
    import typing

    if hint is typing.Any or hint is object:
        return {}
    if hint in PLAIN_HINTS:
        return dict(PLAIN_HINTS[hint])
    origin, inner = getattr(hint, "__origin__", None), getattr(hint, "__args__", ())
    if hasattr(hint, "__metadata__"):
        schema = hint_schema(origin)
        texts = [it for it in hint.__metadata__ if isinstance(it, str)]
        return dict(schema, description=texts[0]) if texts else schema
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        rest = [it for it in inner if it is not type(None)]
        return hint_schema(rest[0]) if len(rest) == 1 else {"anyOf": [hint_schema(it) for it in rest]}
    if str(origin).endswith("Literal"):
        kinds = {type(it) for it in inner}
        plain = dict(PLAIN_HINTS.get(kinds.pop(), {})) if len(kinds) == 1 else {}
        return dict(plain, enum=list(inner))
    if isinstance(origin, type) and issubclass(origin, dict):
        return {"type": "object"}
    if isinstance(origin, type) and issubclass(origin, (list, tuple, set, frozenset)) or origin in abstract_lists():
        one = inner and not isinstance(inner[0], typing.TypeVar)
        return {"type": "array", "items": hint_schema(inner[0])} if one else {"type": "array"}
    if hasattr(hint, "__members__"):
        return {"enum": [it.value for it in hint]}
    return {"type": "string"}


def abstract_lists():
    import collections.abc as abc

    return (abc.Sequence, abc.Iterable, abc.Collection, abc.Set, abc.MutableSequence)


def documented_arguments(doc):
    """What a docstring says of each argument: `name: …` below `Args:`, or `:param name: …`."""
    said, below = {}, False
    for line in doc.splitlines():
        text = line.strip()
        if text.startswith(":param "):
            name, _, rest = text[7:].partition(":")
            said[name.split()[-1] if name.split() else ""] = rest.strip()
        elif text in ("Args:", "Arguments:", "Parameters:"):
            below = True
        elif text and not line[:1].isspace():
            below = False
        elif below and ":" in text:
            name, _, rest = text.partition(":")
            said[name.partition("(")[0].strip().lstrip("*")] = rest.strip()
    return said


def terrarium_top():
    return {name: imported("kohakuterrarium.modules.tool.function")[name] for name in ("FunctionTool", "tool")}


def terrarium_registry():
    registered = Loaded.registered

    def register_builtin(name):
        def made(cls):
            registered[name] = cls
            return cls

        return made

    def get_builtin_tool(name):
        return registered[name]() if name in registered else None

    return {
        "register_builtin": register_builtin,
        "get_builtin_tool": get_builtin_tool,
        "list_builtin_tools": lambda: sorted(registered),
        "is_builtin_tool": lambda name: name in registered,
    }


def terrarium_logging():
    class Logger:
        """Writes to the error output; `info("what", key=value)` as well as `info("what %s", value)`."""

        def __init__(self, name):
            self.name = name

        def log(self, level, message, *values, **fields):
            fields.pop("exc_info", None)
            try:
                message = message % values if values else message
            except Exception:
                message = "%s %r" % (message, values)
            words = ["[%s] %s:" % (level, self.name), str(message)]
            words.extend("%s=%s" % it for it in fields.items())
            STDERR.write(" ".join(words) + "\n")

        def debug(self, message, *values, **fields):
            pass  # As with the original's default level.

        def info(self, message, *values, **fields):
            self.log("INFO", message, *values, **fields)

        def warning(self, message, *values, **fields):
            self.log("WARNING", message, *values, **fields)

        def error(self, message, *values, **fields):
            self.log("ERROR", message, *values, **fields)

        warn = warning
        critical = exception = error

        def bind(self, **fields):
            return self

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *values, **fields: None

    loggers = {}

    def get_logger(name="kohakuterrarium", *others, **options):
        return loggers.setdefault(name, Logger(name))

    return {"get_logger": get_logger}


def terrarium_message():
    from dataclasses import dataclass
    from typing import Optional

    @dataclass
    class TextPart:
        text: str
        type: str = "text"

        def to_dict(self):
            return {"type": "text", "text": self.text}

    @dataclass
    class ImagePart:
        url: str
        detail: str = "low"
        source_type: Optional[str] = None
        source_name: Optional[str] = None
        type: str = "image_url"

        def to_dict(self):
            whole = {"type": "image_url", "image_url": {"url": self.url, "detail": self.detail}}
            if self.source_type or self.source_name:
                whole["meta"] = {"source_type": self.source_type, "source_name": self.source_name}
            return whole

        def get_description(self):
            words = [it for it in (self.source_type, self.source_name) if it]
            return "[%s]" % (": ".join(words) if self.source_type else "image")

    @dataclass
    class FilePart:
        path: Optional[str] = None
        name: Optional[str] = None
        content: Optional[str] = None
        mime: Optional[str] = None
        data_base64: Optional[str] = None
        encoding: Optional[str] = None
        is_inline: bool = False
        type: str = "file"

        def to_dict(self):
            names = ("path", "name", "content", "mime", "data_base64", "encoding", "is_inline")
            return {"type": "file", "file": {name: getattr(self, name) for name in names}}

    def content_parts_to_dicts(parts):
        return [it if isinstance(it, dict) else it.to_dict() for it in parts]

    return {
        "ContentPart": object,
        "FilePart": FilePart,
        "ImagePart": ImagePart,
        "TextPart": TextPart,
        "content_parts_to_dicts": content_parts_to_dicts,
    }


def terrarium_guard():
    import time
    from pathlib import Path
    from types import SimpleNamespace

    class FileReadState:
        """Which files were read, and what they were then.

        Most files are read by haft's own tools, of which this process knows nothing: `assume_read` takes a file that
        was not read here for one that was. haft's own edits are guarded by haft.
        """

        def __init__(self, assume_read=False):
            self.records, self.assume_read = {}, assume_read

        def record_read(self, path, mtime_ns, partial=False, timestamp=None):
            key = str(Path(path).resolve())
            self.records[key] = SimpleNamespace(path=key, mtime_ns=mtime_ns, partial=partial, timestamp=timestamp)

        def get(self, path):
            key = str(Path(path).resolve())
            if key not in self.records and self.assume_read:
                try:
                    self.record_read(key, stat(key).st_mtime_ns, timestamp=time.time())
                except OSError:
                    pass
            return self.records.get(key)

        def clear(self):
            self.records.clear()

    def check_read_before_write(state, path):
        try:
            modified = stat(path).st_mtime_ns
        except OSError:
            return None  # It is a new file.
        record = state.get(path) if state is not None else None
        if record is None:
            return (
                "Cannot write to '%s': file has not been read yet. "
                "Use the read tool first to see the current contents." % path
            )
        if record.mtime_ns != modified:
            return "Cannot write to '%s': file was modified since last read. Read it again first." % path
        return None

    class PathBoundaryGuard:
        def __init__(self, cwd, mode="warn"):
            self.cwd, self.mode, self.warned = str(Path(cwd).resolve()), mode, set()

        def check(self, path):
            resolved = str(Path(path).resolve())
            inside = resolved == self.cwd or resolved.startswith(self.cwd.rstrip("/") + "/")
            if self.mode == "off" or inside or resolved in self.warned:
                return None
            where = "'%s' is outside the working directory (%s)." % (path, self.cwd)
            if self.mode == "block":
                return "Access denied: %s This operation is not allowed." % where
            self.warned.add(resolved)
            return "Warning: %s If this is intentional, retry the same operation to proceed." % where

    def is_binary_file(path, sample_size=8192):
        try:
            with open(path, "rb") as file:
                sample = file.read(sample_size)
        except OSError:
            return False
        plain = bytes(range(8, 14)) + b"\x1b" + bytes(range(32, 256))
        return b"\0" in sample or len(sample.translate(None, plain)) * 10 > len(sample)

    return {
        "FileReadState": FileReadState,
        "PathBoundaryGuard": PathBoundaryGuard,
        "check_read_before_write": check_read_before_write,
        "is_binary_file": is_binary_file,
    }


MODULES = {
    "navi": nothing,
    "navi.config": navi_config,
    "navi.llm": nothing,
    "navi.llm.base": navi_llm,
    "navi.tools": nothing,
    "navi.tools.base": navi_base,
    "navi.tools._internal": lambda: imported("navi.tools._internal.base"),
    "navi.tools._internal.base": navi_internal,
    "agent": nothing,
    "agent.tools": nothing,
    "tools": nothing,
    "kohakuterrarium": terrarium_top,
    "kohakuterrarium.builtins": nothing,
    "kohakuterrarium.builtins.tools": nothing,
    "kohakuterrarium.builtins.tools.registry": terrarium_registry,
    "kohakuterrarium.llm": nothing,
    "kohakuterrarium.llm.message": terrarium_message,
    "kohakuterrarium.modules": nothing,
    "kohakuterrarium.modules.tool": terrarium_tool,
    "kohakuterrarium.modules.tool.base": terrarium_base,
    "kohakuterrarium.modules.tool.function": terrarium_function,
    "kohakuterrarium.utils": nothing,
    "kohakuterrarium.utils.file_guard": terrarium_guard,
    "kohakuterrarium.utils.logging": terrarium_logging,
}
PACKAGES = {name.rpartition(".")[0] for name in MODULES if "." in name} | {"agent.tools", "tools"}
