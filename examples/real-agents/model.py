"""A model that says what a script says, for real agents: OpenAI's Responses and Chat, Anthropic's Messages.

    python3 model.py SCRIPT FOLDER

Listens on loopback, writes its port to FOLDER/port and each request to FOLDER/requests.jsonl. Which line of the script
comes next is decided by how many results of tools came back, so that what an agent asks beside its task (a title, say)
does not disturb. What is wrong goes to FOLDER/wrong.
"""
import json
import pathlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def note(name, text):
    with open(FOLDER / name, "a") as file:
        file.write(text + "\n")


def flat(value):
    """All text in a result, however it is wrapped."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(flat, value))
    return flat(value.get("text") or value.get("content") or value.get("output") or "") if isinstance(value, dict) else ""


def of_haft(tools):
    """The tools that are haft's: by the name that haft knows, how this agent calls it, and its schema."""
    found = {}
    for tool in tools:
        if tool.get("type") == "namespace" and "haft" in tool["name"]:
            for one in tool["tools"]:
                found[one["name"]] = ({"namespace": tool["name"], "name": one["name"]}, one)
            continue
        tool = tool.get("function") if isinstance(tool.get("function"), dict) else tool
        for prefix in ("mcp__haft__", "haft_"):
            if tool.get("name", "").startswith(prefix):
                found[tool["name"].removeprefix(prefix)] = ({"name": tool["name"]}, tool)
    return found


def answer(tools, results):
    """What the model says now: its text, and its calls as this agent knows them."""
    tools = of_haft(tools)
    if not tools:
        return "A title", []
    if len(results) >= len(ANSWERS):
        note("wrong", f"the script has no answer {len(results)}")
        return "The script is over.", []
    line = ANSWERS[len(results)]
    last = results[-1] if results else ""
    for text in line.get("expect", []):
        if text not in last:
            note("wrong", f"{text!r} is not in the result: {last}")
            return "This is not what I expected.", []
    calls = []
    for call in line.get("calls", []):
        if call["tool"] not in tools:
            note("wrong", f"there is no {call['tool']!r} among {sorted(tools)}")
            return "There is no such tool.", []
        calls.append((tools[call["tool"]][0], json.dumps(call["arguments"])))
    if not calls:
        note("done", line["say"])
    return line.get("say", ""), calls


def responses(asked):
    results = [flat(it["output"]) for it in asked["input"] if it.get("type") == "function_call_output"]
    text, calls = answer(asked.get("tools", []), results)
    message = {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": text}]}
    items = [message] + [
        {"type": "function_call", "id": f"fc_{len(results)}_{at}", "call_id": f"call_{len(results)}_{at}", "arguments": arguments, **name}
        for at, (name, arguments) in enumerate(calls)
    ]
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None, "total_tokens": 2}
    yield "response.created", {"type": "response.created", "response": {"id": "resp_1"}}
    for item in items:
        yield "response.output_item.done", {"type": "response.output_item.done", "item": item}
    yield "response.completed", {"type": "response.completed", "response": {"id": "resp_1", "output": items, "usage": usage}}


def messages(asked):
    blocks = [it for message in asked["messages"] if isinstance(message["content"], list) for it in message["content"]]
    results = [flat(it.get("content", "")) for it in blocks if it["type"] == "tool_result"]
    text, calls = answer(asked.get("tools", []), results)
    parts = [({"type": "text", "text": ""}, {"type": "text_delta", "text": text})] + [
        ({"type": "tool_use", "id": f"toolu_{len(results)}_{at}", "input": {}, **name}, {"type": "input_json_delta", "partial_json": arguments})
        for at, (name, arguments) in enumerate(calls)
    ]
    yield "message_start", {"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    for at, (block, delta) in enumerate(parts):
        yield "content_block_start", {"index": at, "content_block": block}
        yield "content_block_delta", {"index": at, "delta": delta}
        yield "content_block_stop", {"index": at}
    yield "message_delta", {"delta": {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


def chat(asked):
    results = [flat(it["content"]) for it in asked["messages"] if it["role"] == "tool"]
    text, calls = answer(asked.get("tools", []), results)
    delta = {"role": "assistant", "content": text}
    if calls:
        delta["tool_calls"] = [{"index": at, "id": f"call_{len(results)}_{at}", "type": "function", "function": {"arguments": arguments, **name}}
            for at, (name, arguments) in enumerate(calls)]
    for delta, end in ((delta, None), ({}, "tool_calls" if calls else "stop")):
        yield None, {"id": "c_1", "object": "chat.completion.chunk", "created": 0, "model": asked["model"],
            "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}


class Model(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        path = self.path.split("?")[0]
        apis = {"/v1/responses": responses, "/v1/messages": messages, "/v1/chat/completions": chat}
        if path not in apis:
            return self.send_error(404)
        asked = json.loads(body)
        note("requests.jsonl", json.dumps({"path": path, "body": asked}))
        events = list(apis[path](asked))
        if path == "/v1/messages" and not asked.get("stream"):
            whole = {**events[0][1]["message"], "content": [{"type": "text", "text": "A title"}], "stop_reason": "end_turn"}
            return self.say("application/json", json.dumps(whole))
        lines = []
        for name, event in events:
            lines.append(f"event: {name}\ndata: {json.dumps({'type': name, **event})}\n\n" if name else f"data: {json.dumps(event)}\n\n")
        self.say("text/event-stream", "".join(lines) + ("data: [DONE]\n\n" if path.endswith("completions") else ""))

    def say(self, kind, text):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    SCRIPT, FOLDER = map(pathlib.Path, sys.argv[1:])
    ANSWERS = [json.loads(line) for line in SCRIPT.read_text().splitlines() if line and not line.startswith("#")]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    (FOLDER / "port").write_text(str(server.server_port))
    server.serve_forever()
