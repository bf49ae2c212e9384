"""An MCP server for tests, with no packages. What it does is said by a JSON object in its first argument."""
import json, os, subprocess, sys, time, urllib.request

how = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
here = os.getcwd()


def mark(name, text="x"):
    with open(os.path.join(here, name), "a") as file:
        file.write(text + "\n")


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


mark("started", str(os.getpid()))
starts = len(open(os.path.join(here, "started")).readlines())
if how.get("child"):
    # It holds our pipes.
    child = subprocess.Popen(["sleep", "1000"])
if how.get("flood"):
    sys.stderr.write("flood\n" * 2_000_000)
if how.get("noise"):
    print("Welcome to the \x1b[31mserver\x1b[0m")
    print('{"half": ')
    sys.stdout.flush()
if how.get("dies_at_start") is True or starts <= how.get("dies_at_start", 0):
    sys.exit("no module named 'left'")
if how.get("hangs"):
    time.sleep(1000)

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def tools():
    described = how.get("described", "Says it again.")
    if os.path.exists(os.path.join(here, "description")):
        described = open(os.path.join(here, "description")).read()
    names = how.get("tools", ["echo", "env", "get", "read", "die", "huge", "slow", "count", "change", "fail", "bad"])
    all_tools = [{"name": name, "description": described, "inputSchema": TEXT} for name in names]
    if os.path.exists(os.path.join(here, "renamed")):
        all_tools[0]["name"] = "echo_"
    all_tools[0]["annotations"] = {"readOnlyHint": True}
    return all_tools


def call(id, params):
    name, text = params["name"], params.get("arguments", {}).get("text", "")
    token = params.get("_meta", {}).get("progressToken")
    mark("called", name)
    if name == "die" or (name == "count" and len(open("called").readlines()) == 1):
        sys.stderr.write("the disk is on fire\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "huge":
        sys.stdout.write('{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "text", "text": "' % json.dumps(id))
        for _ in range(100):
            sys.stdout.write("x" * (1 << 20))
        sys.stdout.write('"}]}}\n')
        sys.stdout.flush()
        return
    if name == "bad":
        say({"id": id, "result": {"content": 7}})
        return
    if name == "slow":
        say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2, "message": "half"}})
        return
    if name == "change":
        open("description", "w").write(text)
        say({"method": "notifications/tools/list_changed"})
    answer = text
    try:
        if name == "env":
            answer = os.environ.get(text, "not set")
        if name == "read":
            answer = open(text).read()
        if name == "get":
            # Or this machine is asked without the proxy.
            os.environ.pop("no_proxy", None), os.environ.pop("NO_PROXY", None)
            answer = urllib.request.urlopen(text, timeout=5).read().decode()
    except Exception as error:
        say({"id": id, "result": {"isError": True, "content": [{"type": "text", "text": f"{type(error).__name__}: {error}"}]}})
        return
    result = {"content": [{"type": "text", "text": answer}]}
    if name == "fail":
        result["isError"] = True
    say({"id": id, "result": result})


for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "server/discover":
        if how.get("ignores_discover"):
            continue
        say({"id": id, "error": {"code": -32601, "message": "Method not found"}})
    elif method == "initialize":
        mark("initialized")
        say({"id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                                  "serverInfo": {"name": "fixture", "version": "1"}}})
    elif method == "tools/list":
        say({"id": id, "result": {"tools": tools()}})
    elif method == "tools/call":
        call(id, params)
    elif method == "notifications/cancelled":
        mark("cancelled")
    elif id is not None and method:
        say({"id": id, "error": {"code": -32601, "message": "Method not found"}})
mark("left")
if how.get("stays"):
    time.sleep(1000)
