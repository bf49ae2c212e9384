"""Did the agent do its task by haft's tools, and did its model see them as haft says them?

    python3 check.py AGENT FOLDER HAFT
"""
import json
import pathlib
import subprocess
import sys

from model import of_haft

name, room, haft = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]


def end(why):
    sys.exit(f"{name}: {why}")


def served():
    """The tools as haft lists them."""
    greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}}
    lines = [{"id": 1, "method": "initialize", "params": greeting}, {"method": "notifications/initialized"}]
    tools, cursor = [], None
    while True:
        params = {"cursor": cursor} if cursor else {}
        asked = "".join(json.dumps({"jsonrpc": "2.0", **it}) + "\n" for it in [*lines, {"id": 2, "method": "tools/list", "params": params}])
        done = subprocess.run([haft, "mcp"], input=asked, capture_output=True, text=True, check=True, cwd=room / "project")
        page = next(it["result"] for it in map(json.loads, done.stdout.splitlines()) if it.get("id") == 2)
        tools += page["tools"]
        cursor = page.get("nextCursor")
        if not cursor:
            return {tool["name"]: tool for tool in tools}


if (room / "said/wrong").exists():
    end((room / "said/wrong").read_text())
if not (room / "said/done").exists():
    end("it did not come to the end of the script")
requests = [json.loads(line)["body"] for line in (room / "said/requests.jsonl").read_text().splitlines()]
seen = of_haft(requests[-1].get("tools", []) or max((it.get("tools", []) for it in requests), key=len))
ours = served()
if missing := sorted(set(ours) - set(seen)):
    end(f"its model does not see {missing}")
for tool, (_, shown) in seen.items():
    schema = shown.get("parameters") or shown.get("input_schema")
    wanted = ours[tool]["inputSchema"]
    if shown["description"] != ours[tool]["description"]:
        end(f"the description of {tool} is another: {shown['description']!r}")
    if set(schema.get("properties", {})) != set(wanted.get("properties", {})):
        end(f"the arguments of {tool} are others: {schema}")
    if set(schema.get("required", [])) != set(wanted.get("required", [])):
        end(f"other arguments of {tool} are required: {schema}")
size = sum(len(json.dumps(shown, separators=(",", ":"))) for _, shown in seen.values())
print(f"{name}: its model sees {len(seen)} tools of haft, about {size // 4} tokens, in {len(requests)} requests")
