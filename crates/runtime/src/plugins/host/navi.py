"""What does a file find in the modules of navi that it imports?

Each function makes what is in one module; shims.py says which.
"""


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
