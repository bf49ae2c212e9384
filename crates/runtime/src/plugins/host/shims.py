"""What do files import that were written for another system, and what do they get here?

    haft                             agent, which asks a model
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


class Beside:
    """Finds what a tool with grants may import from its folder, and nothing else that lies there.

    It has the very texts that a person vouched for, whatever the folder holds by now.
    """

    # By the names they are imported by: what haft said of them. None: the folder is a place as any other.
    files = None

    @staticmethod
    def find_spec(name, path=None, target=None):
        own = own_name(name)
        file = Beside.files.get(own)
        if file is not None:
            spec = ModuleSpec(name, Text(file), origin=file["path"], is_package=file["is_package"])
            spec.has_location = True
            return spec
        if any(it.startswith(own + ".") for it in Beside.files):
            return ModuleSpec(name, Nothing, is_package=True)
        if is_file("%s/%s.py" % (Loaded.folder, own.replace(".", "/"))):
            text = "%s lies beside this tool, and nobody vouches for it as it is: a person can, with `haft trust`"
            raise ModuleNotFoundError(text % (own.replace(".", "/") + ".py"), name=name)
        return None


class Text:
    """Runs a file that haft has read."""

    def __init__(self, file):
        self.file = file

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path, source = self.file["path"], self.file["source"].lstrip("\ufeff")
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)

    def get_source(self, name):
        return self.file["source"]


class Nothing:
    """Makes the package that a folder without `__init__.py` is."""

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        pass


def own_name(name):
    """The name of a module without the package that files of the folder can be imported from."""
    for package in ALIASES:
        if name.startswith(package + "."):
            return name[len(package) + 1 :]
    return name


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
    if Beside.files is not None:
        return name in Beside.files
    place = "%s/%s" % (Loaded.folder, name)
    return is_file(place + ".py") or is_file(place + "/__init__.py")


def is_file(path):
    try:
        return stat(path).st_mode & 0o170000 == 0o100000
    except OSError:
        return False


def locations(name, path):
    """Where the other modules of a package are: in the folder of tools, in the real package."""
    found = [Loaded.folder] if name in ALIASES and Beside.files is None else []
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


MODULES = {
    "haft": haft_top,
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
    "kohakuterrarium.core": nothing,
    "kohakuterrarium.core.channel": terrarium_channel,
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
