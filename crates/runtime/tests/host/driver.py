"""Does the Python host do what it says over its socket, whatever the file in it does?

`driver.py CASE` runs one function of this file; mod.rs has a test for each. The host is started as haft starts
it, but without a sandbox: what is tested is the script.
"""

import base64
import json
import marshal
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = os.path.join(HERE, "../../src/plugins/host")
FILES = os.path.join(HERE, "../../../haft/tests/tool_files")
TOKEN = "5f0c"
# A wait that comes to this has no end.
PATIENCE = 30
FIRST = """\
import os,sys
d=b''
while len(d)<8:d+=os.read(3,8-len(d)) or sys.exit(1)
n=int(d);s=b''
while len(s)<n:s+=os.read(3,n-len(s)) or sys.exit(1)
exec(compile(s,'<haft>','exec'),{'__name__':'haft','MODE':sys.argv[1]})"""


def script():
    """The parts, in the order in which haft joins them."""
    with open(os.path.join(PARTS, "../host.rs"), encoding="utf-8") as file:
        names = re.findall(r'include_str!\("host/(\w+\.py)"\)', file.read())
    assert set(names) == {it for it in os.listdir(PARTS) if it.endswith(".py")}, names
    whole = b""
    for name in names:
        with open(os.path.join(PARTS, name), "rb") as file:
            whole += file.read()
    return whole


def piece(content):
    return b"%08d" % len(content) + content


class Host:
    """A process with the script in it."""

    def __init__(self, mode="serve", compiled=(b"", b""), keep=False):
        self.top = os.path.realpath(tempfile.mkdtemp())
        self.workspace, self.tools = os.path.join(self.top, "workspace"), os.path.join(self.top, "tools")
        os.mkdir(self.workspace)
        self.printed_to = open(os.path.join(self.top, "printed"), "w+b")
        self.socket, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-X", "utf8", "-c", FIRST, "host"],
            stdin=subprocess.DEVNULL,
            stdout=self.printed_to,
            stderr=subprocess.STDOUT,
            close_fds=False,
            preexec_fn=lambda: os.dup2(theirs.fileno(), 3),
            cwd="/",
        )
        theirs.close()
        with open(os.path.join(PARTS, "../boot.py"), "rb") as file:
            boot = file.read()
        self.socket.sendall(b"".join(map(piece, (boot, *compiled, script()))))
        self.socket.settimeout(PATIENCE)
        self.heard, self.answered = b"", set()
        try:
            self.send({"token": TOKEN, "mode": mode, "keep": keep})
        except BrokenPipeError:
            # Code that exits at once has ended by now; what it wrote can still be read.
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.printed_to.close()
        self.socket.close()
        shutil.rmtree(self.top)

    def send(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def answer(self):
        """The next message; None at the end. What is before the token is left out."""
        while True:
            line, found, rest = self.heard.partition(b"\n")
            if found:
                self.heard = rest
                _, token, message = line.partition(TOKEN.encode() + b" ")
                if token:
                    return json.loads(message)
                continue
            try:
                chunk = self.socket.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            self.heard += chunk

    def is_quiet(self, seconds=0.05):
        """Nothing more comes."""
        return not self.heard and not select.select([self.socket], [], [], seconds)[0]

    def file(self, name):
        """A copy of a file of ours, in the folder of tools, with all that lies beside it."""
        kind = next(it for it in ("formats", "hostile") if os.path.exists(os.path.join(FILES, it, name + ".py")))
        if not os.path.exists(self.tools):
            shutil.copytree(os.path.join(FILES, kind), self.tools, ignore=shutil.ignore_patterns("__pycache__"))
        return os.path.join(self.tools, name + ".py")

    def about(self, name, source=None):
        path = self.file(name) if source is None else os.path.join(self.tools, name + ".py")
        if source is None:
            with open(path, encoding="utf-8") as file:
                source = file.read()
        return {"path": path, "folder": self.tools, "source": source, "workspace": self.workspace}

    def load(self, name, source=None):
        self.send(dict(self.about(name, source), op="load", session="s_1", settings={"tools_dir": self.tools}))
        return self.answer()

    def loaded(self, name, source=None):
        said = self.load(name, source)
        assert said["op"] == "loaded", said
        return said["tools"]

    def call(self, entry="", id=1, **arguments):
        self.send({"op": "call", "id": id, "entry": entry, "arguments": arguments, "session": "s_1"})

    def result(self, entry="", id=1, **arguments):
        self.call(entry, id, **arguments)
        said = self.answer()
        while said and (said["op"] == "question" or said["id"] in self.answered and said["id"] != id):
            if said["op"] == "question":
                equal(said["question"], {"what": "context"})
                known = {"agent": None, "tool_format": "native", "creature": None}
                self.send({"op": "answer", "number": said["number"], "value": known, "error": None})
            # Or a second answer, which haft leaves out: a signal came while the first went out.
            said = self.answer()
        self.answered.add(id)
        assert said is None or (said["op"], said["id"]) == ("result", id), said
        return said

    def text(self, entry="", id=1, **arguments):
        said = self.result(entry, id, **arguments)
        assert said["ok"] and len(said["parts"]) == 1, said
        return said["parts"][0]["text"]

    def error(self, entry="", id=1, **arguments):
        said = self.result(entry, id, **arguments)
        assert not said["ok"], said
        return said["error"]

    def ended(self):
        """How the process ended: what `subprocess` says of it."""
        assert self.answer() is None
        return self.process.wait(PATIENCE)

    def printed(self):
        with open(os.path.join(self.top, "printed"), "rb") as file:
            return file.read().decode("utf-8", "replace")

    def describe(self, file, source=None, id=1, **more):
        more.setdefault("op", "describe")
        self.send(dict(self.about(file, source), id=id, **more))
        said = self.answer()
        assert said["id"] == id, said
        return said


def hosted(name):
    """A host with this file loaded."""
    host = Host()
    host.loaded(name)
    return host


def equal(left, right):
    assert left == right, "%r is not %r" % (left, right)


def holds(text, *parts):
    for part in parts:
        assert part in text, "%r is not in %r" % (part, text)


# The formats


def navi_module():
    with Host() as host:
        (it,) = host.loaded("navi_module")
        equal((it["name"], it["format"], it["entry"], it["touches"]), ("navi_module", "navi", "", None))
        equal(it["schema"]["required"], ["action"])
        equal(host.text(action="save", key="k", value="é"), "Saved: k")
        equal(host.text(action="get", key="k"), "é")
        assert os.path.exists(os.path.join(host.tools, "navi_module_data.json"))
        said = host.result(action="x")
        equal(said["error"], "ValueError: Unknown action: x")
        holds(said["traceback"], "navi_module.py", 'raise ValueError(f"Unknown action: {action}")')
        assert "<haft>" not in said["traceback"], said["traceback"]


def navi_class():
    with Host() as host:
        equal([it["name"] for it in host.loaded("navi_class")], ["swatch", "session_name"])
        said = host.result("SwatchTool", color="ff0000")
        equal([it["type"] for it in said["parts"]], ["text", "image"])
        equal(said["parts"][1]["mime"], "image/png")
        said = host.result("SwatchTool", color="f")
        equal((said["error"], said["parts"][0]["text"]), ("a color is six hex digits", "got 'f'"))
        host.call("SessionTool", color="")
        equal(host.answer()["message"], "looking")
        equal(host.answer()["parts"][0]["text"], "s_1")


def navi_internal():
    with hosted("navi_internal") as host:
        equal(host.text("InternalTool"), "s_1 tools None")


def hyperagents():
    with Host() as host:
        (it,) = host.loaded("hyper_bash")
        equal((it["name"], it["format"]), ("hyper_bash", "hyperagents"))
        equal(host.text(command="echo hi"), "hi\n")
        equal(host.error(command=""), "Error: no command")
        holds(host.error(), "TypeError", "command")
    with hosted("hyper_lines") as host:
        equal(host.text(command="echo a; echo b"), "2")
    with hosted("dgm_twice") as host:
        equal(host.text(text="hi"), "hi hi")


def terrarium():
    with Host() as host:
        counts, plain = host.loaded("kt_class")
        equal((counts["format"], counts["touches"], plain["touches"]), ("terrarium", [], None))
        holds(counts["manual"], "between spaces")
        equal(plain["schema"]["properties"]["content"]["type"], "string")
        for name, text in (("words", "a b c"), ("empty", "")):
            with open(os.path.join(host.workspace, name), "w") as file:
                file.write(text)
        equal(host.text("CountTool", path="words"), "3")
        said = host.result("CountTool", path="words", picture=True)
        equal([it["type"] for it in said["parts"]], ["text", "image"])
        said = host.result("CountTool", path="empty")
        equal((said["ok"], said["exit"]), (True, 1))
        equal(host.error("CountTool", path="nowhere"), "File not found: nowhere")
        equal(host.text("PlainTool", content="x"), "x")
        said = host.result("PlainTool", content="raise")
        equal(said["error"], "RuntimeError: as asked")
        holds(said["traceback"], 'raise RuntimeError("as asked")')
        holds(host.printed(), "counting path=")


def terrarium_functions():
    with Host() as host:
        adds, shouts = host.loaded("kt_function")
        equal((adds["name"], shouts["name"]), ("add_numbers", "shout"))
        equal(adds["schema"]["required"], ["a"])
        equal(adds["schema"]["properties"]["b"], {"type": "integer", "description": "The second.", "default": 2})
        properties = shouts["schema"]["properties"]
        equal(properties["words"], {"type": "array", "items": {"type": "string"}})
        equal(properties["how"]["enum"], ["loud", "louder"])
        equal(properties["times"]["description"], "How often.")
        assert "context" not in properties, properties
        equal(host.text("add_numbers", a=1), "3")
        equal(host.error("add_numbers"), "missing required argument: a")
        equal(host.text("async_shout", text="a", how="louder", times=2), "A! A!")
    with hosted("kt_builtin") as host:
        equal(host.text("EchoTool", content="x"), "echo: x")


def first_format_wins():
    with Host() as host:
        (it,) = host.loaded("both")
        equal((it["format"], len(it["notes"])), ("navi", 1))
        holds(it["notes"][0], "HyperAgents")
        equal(host.text(), "navi")


def declared():
    navi = (
        "from navi.tools.base import Tool\ntouches = ['session notes']\n"
        "class A(Tool):\n    name, description, touches, timeout_seconds = 'a', 'A', ('read {path}',), 5\n"
        "    async def execute(self, params): return ''\n"
        "class B(A):\n    name, touches, manual = 'b', None, 'At length.'\n"
    )
    with Host() as host:
        a, b = host.loaded("x", navi)
        equal((a["touches"], a["timeout_seconds"], a["manual"]), (["read {path}"], 5, None))
        equal((b["touches"], b["timeout_seconds"], b["manual"]), (["session notes"], 5, "At length."))
    for wrong in ("touches = 'all'", "touches = [1]", "timeout_seconds = 'long'"):
        with Host() as host:
            source = "import tools\nname = description = 'x'\nparameters = {}\n%s\ndef execute(it): pass\n" % wrong
            said = host.load("x", source)
            equal(said["op"], "broken")
            holds(said["error"], wrong.split()[0])


# Calls


def calls_side_by_side():
    with Host() as host:
        (it,) = host.loaded("navi_waits")
        equal((it["touches"], it["timeout_seconds"]), ([], 30))
        for id in range(1, 6):
            host.call(id=id, expected=5)
        equal({host.answer()["parts"][0]["text"] for _ in range(5)}, {"place %d" % it for it in range(1, 6)})


def threads_side_by_side():
    source = (
        "import threading\n"
        "name = 'x'\ndescription = 'x'\nparameters = {'type': 'object'}\nall_here = threading.Barrier(4)\n"
        "def execute(params):\n    all_here.wait(20)\n    return 'met'\n"
    )
    with Host() as host:
        host.loaded("x", source)
        for _ in range(3):
            for id in range(4):
                host.call(id=id)
            equal({host.answer()["id"] for _ in range(4)}, {0, 1, 2, 3})


def cancelled():
    source = (
        "import asyncio, os\nname = 'x'\ndescription = 'x'\nparameters = {}\n"
        "async def execute(params):\n"
        "    if params: return 'fine'\n"
        "    try:\n"
        "        print('waits')\n"
        "        await asyncio.sleep(3600)\n"
        "    finally:\n"
        "        await asyncio.sleep(0)\n"
        "        print('cleans up')\n"
    )
    with Host() as host:
        host.loaded("x", source)
        # Before it can have begun, and while it waits.
        for id, printed in ((1, ""), (2, "waits")):
            host.call(id=id)
            until = time.monotonic() + PATIENCE
            while printed not in host.printed() and time.monotonic() < until:
                time.sleep(0.001)
            host.send({"op": "cancel", "id": id})
            said = host.answer()
            equal((said["id"], said["ok"], said["error"]), (id, False, "cancelled"))
        holds(host.printed(), "cleans up")
        equal(host.text(id=3, some="thing"), "fine")


def long_lines():
    text = "é" * 3_000_000
    source = "name = 'x'\ndescription = 'x'\nparameters = {}\nasync def execute(params):\n    return params['text']\n"
    with Host() as host:
        host.loaded("x", source)
        equal(host.text(text=text), text)


def what_runs_is_what_was_loaded():
    source = (
        "import dataclasses, inspect, pickle\n"
        "name = 'calendar'\ndescription = 'x'\nparameters = {}\n"
        "@dataclasses.dataclass\nclass Day:\n    at: int\n"
        "async def execute(params):\n"
        "    import calendar, linecache\n"
        "    assert calendar.monthrange and pickle.loads(pickle.dumps(Day(1))) == Day(1)\n"
        "    assert __import__('sys').argv == [__file__], __import__('sys').argv\n"
        "    return inspect.getsource(Day)\n"
    )
    with Host() as host:
        host.file("navi_module")
        with open(os.path.join(host.tools, "calendar.py"), "w") as file:
            file.write("something else\n" * 20)
        host.loaded("calendar", source)
        holds(host.text(), "class Day", "at: int")
        assert not os.path.exists(os.path.join(host.tools, "__pycache__"))


def ends_with_its_socket():
    with hosted("leaves_threads") as host:
        equal(host.text(), "fine")
        host.socket.shutdown(socket.SHUT_RDWR)
        equal(host.process.wait(PATIENCE), 0)


# What a file may do to its process


def prints():
    with hosted("prints") as host:
        equal(host.text(), "fine")
        # It is there when the answer is.
        holds(host.printed(), "while it is imported\n", "in the call", "to the errors", "straight to the output")


def junk_on_descriptors():
    with hosted("writes_to_descriptors") as host:
        equal(host.text(), "fine")
        equal(host.text(id=2), "fine")
        assert host.is_quiet()


def closed_descriptors():
    with hosted("closes_descriptors") as host:
        equal(host.text(), "fine")
        equal(host.text(id=2), "fine")
    with hosted("closes_everything") as host:
        host.call()
        host.ended()


def exits():
    with hosted("exits_hard") as host:
        host.call()
        equal(host.ended(), 7)
    for name, how in (("exits", "exit"), ("interrupts", "interrupt")):
        with hosted(name) as host:
            holds(host.error(how=how), {"exit": "SystemExit: 3", "interrupt": "KeyboardInterrupt"}[how])
            equal(host.text(id=2), "fine")


def broken_at_import():
    with Host() as host:
        holds(host.load("exits_at_import")["error"], "SystemExit: 3")
    with Host() as host:
        equal(host.load("missing_module")["error"], "ModuleNotFoundError: No module named 'no_such_module_anywhere'")
    with Host() as host:
        host.send(dict(host.about("exits_hard_at_import"), op="load"))
        equal(host.ended(), 7)
    with Host() as host:
        said = host.load("syntax_error")
        holds(said["error"], "SyntaxError", "line 3")
        holds(said["traceback"], "syntax_error.py", 'parameters = {"type"', "^")


def crashes():
    with hosted("crashes") as host:
        host.call()
        equal(host.ended(), -signal.SIGSEGV)
        holds(host.printed(), "Segmentation fault", "crashes.py")


def recursion():
    with hosted("recurses") as host:
        said = host.result()
        holds(said["error"], "RecursionError")
        assert len(said["traceback"].splitlines()) < 70
        holds(host.error(id=2), "RecursionError")
    with hosted("long_traceback") as host:
        said = host.result()
        equal(said["error"], "ValueError: deep down")
        holds(said["traceback"], "lines left out", 'raise ValueError("deep down")', "in execute")
        assert len(said["traceback"].splitlines()) < 70


def forks():
    with hosted("forks") as host:
        for id in range(5):
            equal(host.text(id=id), "fine")
        assert host.is_quiet()
    with Host() as host:
        host.loaded("forks_at_import")
        assert host.is_quiet()
        equal(host.text(), "fine")
    with hosted("leaves_daemon") as host:
        equal(host.text(seconds=3), "fine")
        host.process.kill()
        # The daemon lives on for a while, and does not hold the socket.
        host.ended()


def threads_and_tasks_left():
    with hosted("leaves_threads") as host:
        for id in range(3):
            equal(host.text(id=id), "fine")


def changed_process():
    with hosted("changes_process") as host:
        for id in range(3):
            # Relative paths stay the workspace's.
            equal(host.text(id=id), host.workspace)
        host.process.send_signal(signal.SIGINT)
        equal(host.text(id=9), host.workspace)


def patched_library():
    with hosted("patches") as host:
        equal(host.text(how=""), "fine")
    with hosted("patches") as host:
        equal(host.error(how="fail"), "ValueError: with all of that gone")


def late_signals():
    with hosted("raises_later") as host:
        for id in range(20):
            said = host.result(id=id)
            assert said["ok"] or "too late" in said["error"], said
            time.sleep(0.005)


def lost_file():
    with hosted("deletes_itself") as host:
        said = host.result()
        equal(said["error"], "ValueError: after that")
        holds(said["traceback"], 'raise ValueError("after that")')
        assert not os.path.exists(host.file("deletes_itself"))
        holds(host.error(id=2), "FileNotFoundError")
    with hosted("replaces_execute") as host:
        equal([host.text(), host.text(id=2)], ["fine", "fine"])


def odd_results():
    with hosted("bad_results") as host:
        holds(host.error(how="none"), "returned None")
        holds(host.error(how="bytes"), "returned bytes")
        holds(host.error(how="object"), "can't be given", "object has no form in JSON")
        holds(host.error(how="not a number"), "can't be given")
        holds(host.error(how="cycle"), "can't be given", "ircular")
        holds(host.error(how="deep"), "nested too deeply")
        holds(host.error(how="surrogate"), "surrogate")
        holds(host.error(how="huge"), "64 million is the most")
        said = host.result(how="number")
        equal((said["parts"][0]["text"], len(said["notes"])), ("1.5", 1))
        said = host.result(how="dict")
        equal((said["structured"], said["parts"][0]["text"]), ({"a": [1, None]}, '{"a":[1,null]}'))
        equal(host.text(how="lines"), "a\r\nb\u2028c\0d")
    with hosted("bad_errors") as host:
        holds(host.error(), "Unprintable")


def odd_descriptions():
    with Host() as host:
        (it,) = host.loaded("huge_description")
        equal((len(it["description"]), len(it["notes"])), (16 * 1024, 1))
    for name, words in (
        ("bad_name", ["'../bad name' can't be the name of a tool"]),
        ("bad_schema", ["can't be given to a model", "set"]),
        ("two_of_a_name", ["two tools in it are called `two_of_a_name`"]),
        ("no_tool", ["no tool in it", "`description`", "`parameters`"]),
    ):
        with Host() as host:
            said = host.load(name)
            equal(said["op"], "broken")
            holds(said["error"], *words)


    for schema, words in (
        ("{'p%d' % it: {} for it in range(100_000)}", ["kB as JSON; 64 kB is the most"]),
        ("__import__('functools').reduce(lambda it, _: {'properties': {'a': it}}, range(60), {})", ["more than 50 deep"]),
        ("__import__('functools').reduce(lambda it, _: [it], range(100_000), {})", ["can't be given to a model"]),
    ):
        with Host() as host:
            source = "name = description = 'it'\nparameters = {'properties': %s}\nasync def execute(params): pass\n"
            said = host.load("good", source % schema)
            equal(said["op"], "broken")
            holds(said["error"], *words)


def library_frames():
    # Of what happens within libraries a model can change nothing.
    source = (
        "import json\nname = description = 'it'\nparameters = {}\n\n\ndef load(text):\n    return json.loads(text, cls=Own)\n\n\n"
        "class Own(json.JSONDecoder):\n    def decode(self, text, depth=0):\n        return super().decode(text) if depth > 5 else "
        "__import__('functools').reduce(lambda *_: self.decode(text, depth + 1), [1], 0)\n\n\n"
        "async def execute(params):\n    return load('{')\n"
    )
    with Host() as host:
        equal(host.load("good", source)["op"], "loaded")
        traceback = host.result()["traceback"]
        holds(traceback, "in execute", "return load('{')", "in load", "calls within libraries left out", "JSONDecodeError")
        equal(traceback.count("json/decoder.py"), 1)


def mcp_results():
    # What a tool of an MCP server would return.
    source = (
        "name = description = 'it'\nparameters = {}\nasync def execute(params):\n"
        "    return {'content': [{'type': 'text', 'text': 'seen'}, {'type': 'image', 'data': 'R0lGODlhAQABAIAAAP///w==',"
        " 'mimeType': 'image/gif'}], 'structuredContent': {'a': 1}, 'isError': params.get('fails', False)}\n"
    )
    with Host() as host:
        equal(host.load("good", source)["op"], "loaded")
        said = host.result()
        equal([it["type"] for it in said["parts"]], ["text", "image"])
        equal((said["ok"], said["structured"], said["parts"][1]["mime"]), (True, {"a": 1}, "image/gif"))
        said = host.result(id=2, fails=True)
        equal((said["ok"], said["error"], [it["type"] for it in said["parts"]]), (False, "seen", ["image"]))


def sleeps_and_wakes():
    # A call that never ends is ended with its process; what it had printed is there.
    with hosted("loops") as host:
        host.call()
        assert host.is_quiet(0.2)
        host.process.kill()
        equal(host.ended(), -signal.SIGKILL)


# Descriptions


def describes_all():
    names = [it[:-3] for it in os.listdir(os.path.join(FILES, "formats")) if it[-3:] == ".py" and it[0] != "_"]
    with Host("describe") as host:
        for id, name in enumerate(names):
            host.send(dict(host.about(name), op="describe", id=id))
        found = [host.answer() for _ in names]
        equal({it["op"] for it in found}, {"described"})
        equal({it["id"] for it in found}, set(range(len(found))))
        equal(sum(len(it["tools"]) for it in found), 18)
        # Nothing of one file is in the next, nor here.
        source = "import sys\nassert not any('tools.' in it for it in sys.modules if it != __name__)\n"
        with open(host.file("both"), encoding="utf-8") as file:
            equal(host.describe("x", source + file.read())["op"], "described")


def describes_hostile():
    with Host("describe") as host:
        for name, words in (
            ("exits_hard_at_import", "ended its process with status 7 while it was imported"),
            ("exits_at_import", "SystemExit: 3"),
            ("crashes_at_import", "died of SIGSEGV while it was imported: line"),
            ("missing_module", "ModuleNotFoundError: No module named"),
            ("syntax_error", "SyntaxError"),
            ("bad_name", "can't be the name"),
        ):
            said = host.describe(name)
            equal(said["op"], "broken")
            holds(said["error"], words)
        for name in ("forks_at_import", "prints", "huge_description"):
            equal(host.describe(name)["op"], "described")
        assert host.is_quiet()
        two_hundred(host)


def two_hundred(host):
    message = host.about("prints")
    for id in range(200):
        host.send(dict(message, op="describe", id=id))
    equal({host.answer()["id"] for _ in range(200)}, set(range(200)))


def describes_what_hangs():
    with Host("describe") as host:
        host.send(dict(host.about("hangs_at_import"), op="describe", id=1))
        # Others are not kept from theirs.
        equal(host.describe("prints", id=2)["op"], "described")
        said = host.answer()
        equal((said["op"], said["id"]), ("broken", 1))
        holds(said["error"], "had not been imported after 10 s", "in wait_for_something")
        holds(said["traceback"], "hangs_at_import.py")


def stops_describing():
    with Host("describe") as host:
        for id in range(6):
            host.send(dict(host.about("hangs_at_import"), op="describe", id=id))
        for id in range(6):
            host.send({"op": "cancel", "id": id})
        host.send(dict(host.about("prints"), op="describe", id=9))
        # Those that had begun are answered for, those that had not are forgotten.
        found = [host.answer()]
        while found[-1]["id"] != 9:
            found.append(host.answer())
        equal(found[-1]["op"], "described")
        assert len(found) <= 5, found


def checks():
    schema = "{'type': 'object', 'properties': {}}"
    good = "name = 'x'\ndescription = 'd'\nparameters = %s\nasync def execute(params):\n    return ''\n" % schema
    with Host("describe") as host:
        def check(source):
            return host.describe("x", source, op="check", name="x")

        equal(check(good)["tool"]["name"], "x")
        equal(len(check("")["missing"]), 4)
        bad = "name = 'y'\nparameters = []\ndef execute():\n    pass\n"
        missing = check(bad)["missing"]
        equal(len(missing), 4)
        for text, words in zip(missing, ("line 1", "description", "line 2", "line 3")):
            holds(text, words)
        holds(check(good.replace("params)", "a, b)"))["missing"][0], "line 4 takes 2")
        said = check(good + "raise ValueError('at the end')\n")
        equal((said["op"], said["missing"], said["error"]), ("unfit", [], "ValueError: at the end"))
        holds(said["traceback"], "line 6")
        said = check("name = (\n")
        holds(said["error"], "SyntaxError")
        assert "ast.py" not in said["traceback"], said["traceback"]
        holds(check("import os\nos._exit(3)\n" + good)["error"], "status 3")
        # What is computed is seen once it has been imported.
        equal(check(good.replace(schema, "dict(type='object')"))["op"], "checked")


def compiled_once():
    with Host(keep=True) as host:
        # Before anything of a tool's.
        said = host.answer()
        equal(said["op"], "compiled")
        by, code = said["compiled_by"].encode(), base64.b64decode(said["code"])
        host.loaded("navi_module")
    for mine in (by, code), (b"another", code), (by, b""):
        with Host(compiled=mine, keep=True) as host:
            if mine != (by, code):
                equal(host.answer()["code"], said["code"])
            host.loaded("navi_module")
            equal(host.text(action="save", key="k", value="v"), "Saved: k")
    other = marshal.dumps(compile("import os\nos.write(3, b'%s {}\\n')" % TOKEN, "x", "exec"))
    with Host(compiled=(by, other)) as host:
        equal(host.answer(), {})
    with Host(compiled=(by + b"x", other)) as host:
        host.loaded("navi_module")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
