"""What does a file find in the modules of KohakuTerrarium that it imports?

Each function makes what is in one module; shims.py says which.
"""


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
        job_store: Any = None

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
                given = {"context": context} if wants_context(self, self._execute) else {}
                result = self._execute(args, **given)
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


BINARY_SUFFIXES = frozenset(
    ".png .jpg .jpeg .gif .bmp .ico .webp .tif .tiff .mp3 .wav .ogg .flac .mp4 .avi .mov .mkv .webm .zip .tar .gz .bz2 .xz .7z "
    ".rar .zst .pdf .doc .docx .xls .xlsx .ppt .pptx .exe .dll .so .dylib .o .a .bin .class .pyc .pyo .wasm .woff .woff2 .ttf "
    ".otf .eot .db .sqlite .sqlite3".split()
)


def terrarium_guard():
    import time
    from pathlib import Path
    from types import SimpleNamespace

    class FileReadState:
        """Which files were read, and what they were then.

        That of a call asks haft, which knows what the session was shown by its own tools and what tool files recorded.
        """

        def __init__(self, call=None):
            self.records, self.call = {}, call

        def record_read(self, path, mtime_ns, partial=False, timestamp=None):
            key = str(Path(path).resolve())
            record = {"mtime_ns": mtime_ns, "partial": bool(partial), "timestamp": timestamp or time.time()}
            if self.call is not None:
                ask(self.call, "record_read", path=key, record=record)
            else:
                self.records[key] = SimpleNamespace(path=key, **record)

        def get(self, path):
            key = str(Path(path).resolve())
            if self.call is None:
                return self.records.get(key)
            record = ask(self.call, "read_state", path=key)
            return None if record is None else SimpleNamespace(path=key, **record)

        def clear(self):
            self.records.clear()
            if self.call is not None:
                ask(self.call, "forget_reads")

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
        if not Path(path).is_file():
            return False
        if Path(path).suffix.lower() in BINARY_SUFFIXES:
            return True
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
