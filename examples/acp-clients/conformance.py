"""Conformance suite for agents of the Agent Client Protocol, version 1.

    conformance.py [--schema SCHEMA] [--prompt TEXT] [--name NAME] -- COMMAND...

Each check is a line of the table: `pass`, `FAIL`, or `-` where the agent says that it does not have the ability, or where
the check needs a session and the agent gives none (it wants a key, say). Exit code 1 if a check failed.
"""

import argparse
import json
import sys
import tempfile
import time

import validate
from wire import HELLO, Agent, permission

CHECKS = []


def check(name, needs=None):
    def add(run):
        CHECKS.append((name, needs, run))
        return run

    return add


class Skip(Exception):
    """The agent does not have that."""


class Bench:
    """An agent under test, and how to start it again."""

    def __init__(self, command, prompt, cwd):
        self.command, self.prompt, self.cwd = command, prompt, cwd
        self.lines, self.asked = [], {}
        self.started = []

    def start(self, hello=True, **answers):
        agent = Agent(self.command, answers, cwd=self.cwd)
        begin = agent.begin

        def noted(method, params, id=None):
            waiting = begin(method, params, id)
            used = agent._next if id is None else id
            self.asked.setdefault(len(self.started) - 1, {})[json.dumps(used)] = method
            return waiting

        agent.begin = noted
        self.started.append(agent)
        if hello:
            agent.hello = agent.result("initialize", HELLO)
        return agent

    def session(self, agent):
        answer = agent.ask("session/new", {"cwd": self.cwd, "mcpServers": []})
        if "error" in answer:
            raise Skip(f"session/new: {answer['error'].get('message', '')[:60]}")
        return answer["result"]["sessionId"]

    def say(self, agent, session, text=None, within=60):
        prompt = [{"type": "text", "text": text or self.prompt}]
        answer = agent.ask("session/prompt", {"sessionId": session, "prompt": prompt}, within)
        if "error" in answer:
            raise Skip(f"session/prompt: {answer['error'].get('message', '')[:60]}")
        return answer["result"]


def has(agent, *path):
    it = agent.hello.get("agentCapabilities", {})
    for name in path:
        it = (it or {}).get(name)
    if not it and it != {}:
        raise Skip("/".join(path) + " is not offered")


def error_of(answer):
    assert "error" in answer, f"an error was expected, and came: {json.dumps(answer)[:200]}"
    return answer["error"]["code"]


@check("initialize answers with protocol version 1 and its capabilities")
def _(bench):
    hello = bench.start().hello
    assert hello["protocolVersion"] == 1, hello
    assert isinstance(hello.get("agentCapabilities"), dict), hello


@check("initialize with a version of the future answers with one that it speaks")
def _(bench):
    agent = bench.start(hello=False)
    assert agent.result("initialize", {**HELLO, "protocolVersion": 999})["protocolVersion"] == 1


@check("a request before initialize is an error, and the connection goes on")
def _(bench):
    agent = bench.start(hello=False)
    error_of(agent.ask("session/new", {"cwd": bench.cwd, "mcpServers": []}, 20))
    agent.result("initialize", HELLO)


@check("an unknown method is -32601")
def _(bench):
    assert error_of(bench.start().ask("session/explode", {})) == -32601


@check("an unknown extension method is -32601")
def _(bench):
    assert error_of(bench.start().ask("_example.com/explode", {})) == -32601


@check("an unknown notification is ignored")
def _(bench):
    agent = bench.start()
    agent.notify("_example.com/hello", {})
    agent.notify("explode", {})
    error_of(agent.ask("session/explode", {}))


@check("wrong params are -32602")
def _(bench):
    assert error_of(bench.start().ask("session/new", {"cwd": 5})) == -32602


@check("a line that is not JSON does not end the connection")
def _(bench):
    agent = bench.start()
    agent.send_line("this is not JSON")
    error_of(agent.ask("session/explode", {}, 10))


@check("a line that is not JSON is answered with -32700 and id null")
def _(bench):
    agent = bench.start()
    agent.send_line("{")
    error_of(agent.ask("session/explode", {}, 10))
    answers = [json.loads(it) for it in agent.lines]
    assert any(it.get("id", 0) is None and it["error"]["code"] == -32700 for it in answers if "error" in it)


@check("bytes that are not UTF-8 do not end the connection")
def _(bench):
    agent = bench.start()
    agent.send_line(b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}')
    error_of(agent.ask("session/explode", {}, 10))


@check("a relative cwd is refused")
def _(bench):
    agent = bench.start()
    bench.session(agent)
    error_of(agent.ask("session/new", {"cwd": "relative", "mcpServers": []}))


@check("a prompt in an unknown session is an error")
def _(bench):
    prompt = [{"type": "text", "text": "hello"}]
    error_of(bench.start().ask("session/prompt", {"sessionId": "no-such-session", "prompt": prompt}))


@check("two sessions have two ids")
def _(bench):
    agent = bench.start()
    assert bench.session(agent) != bench.session(agent)


@check("a turn sends text before its answer, and ends with end_turn")
def _(bench):
    agent = bench.start()
    session = bench.session(agent)
    assert bench.say(agent, session)["stopReason"] == "end_turn"
    texts = [it for it in agent.seen() if it["update"]["sessionUpdate"] == "agent_message_chunk"]
    assert texts and all(it["sessionId"] == session for it in texts)


@check("tool calls are announced before they are updated, and end")
def _(bench):
    agent = bench.start(**{"session/request_permission": permission("allow_once")})
    session = bench.session(agent)
    bench.say(agent, session, "use a tool")
    known, open_ = set(), set()
    for it in (it["update"] for it in agent.seen()):
        if it["sessionUpdate"] == "tool_call":
            known.add(it["toolCallId"])
            open_.add(it["toolCallId"])
        elif it["sessionUpdate"] == "tool_call_update":
            assert it["toolCallId"] in known, it
            if it.get("status") in ("completed", "failed"):
                open_.discard(it["toolCallId"])
    if not known:
        raise Skip("it called no tool")
    assert not open_, open_


@check("session/cancel ends a turn with `cancelled`, within 200 ms")
def _(bench):
    agent = bench.start()
    session = bench.session(agent)
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "take your time"}]}
    waiting = agent.begin("session/prompt", prompt)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and agent.updates.empty():
        time.sleep(0.01)
    time.sleep(0.2)
    began = time.monotonic()
    agent.notify("session/cancel", {"sessionId": session})
    at, answer = waiting.get(timeout=30)
    if "error" in answer:
        raise Skip(f"session/prompt: {answer['error'].get('message', '')[:60]}")
    if answer["result"]["stopReason"] == "end_turn":
        raise Skip("the turn was over before it could be cancelled")
    assert answer["result"]["stopReason"] == "cancelled", answer
    assert at - began < 0.2, f"{(at - began) * 1000:.0f} ms"


@check("session/cancel without a turn is not an error, and the next turn goes on")
def _(bench):
    agent = bench.start()
    session = bench.session(agent)
    agent.notify("session/cancel", {"sessionId": session})
    assert bench.say(agent, session)["stopReason"] == "end_turn"


@check("$/cancel_request of an unknown request is ignored")
def _(bench):
    agent = bench.start()
    agent.notify("$/cancel_request", {"requestId": 4711})
    error_of(agent.ask("session/explode", {}))


@check("session/load is there if it is offered, and replays")
def _(bench):
    agent = bench.start()
    has(agent, "loadSession")
    session = bench.session(agent)
    bench.say(agent, session)
    agent.end()
    agent = bench.start()
    agent.result("session/load", {"sessionId": session, "cwd": bench.cwd, "mcpServers": []})
    kinds = [it["update"]["sessionUpdate"] for it in agent.seen()]
    assert "user_message_chunk" in kinds and "agent_message_chunk" in kinds, kinds


@check("session/load of an unknown session is an error")
def _(bench):
    agent = bench.start()
    has(agent, "loadSession")
    error_of(agent.ask("session/load", {"sessionId": "no-such", "cwd": bench.cwd, "mcpServers": []}))


@check("session/resume replays no messages")
def _(bench):
    agent = bench.start()
    has(agent, "sessionCapabilities", "resume")
    session = bench.session(agent)
    bench.say(agent, session)
    agent.end()
    agent = bench.start()
    agent.result("session/resume", {"sessionId": session, "cwd": bench.cwd, "mcpServers": []})
    kinds = [it["update"]["sessionUpdate"] for it in agent.seen()]
    assert "user_message_chunk" not in kinds and "agent_message_chunk" not in kinds, kinds


@check("session/list has a session with a message")
def _(bench):
    agent = bench.start()
    has(agent, "sessionCapabilities", "list")
    session = bench.session(agent)
    bench.say(agent, session)
    listed = agent.result("session/list", {"cwd": bench.cwd})["sessions"]
    assert session in [it["sessionId"] for it in listed], listed


@check("session/delete takes it off the list")
def _(bench):
    agent = bench.start()
    has(agent, "sessionCapabilities", "delete")
    session = bench.session(agent)
    bench.say(agent, session)
    agent.result("session/delete", {"sessionId": session})
    listed = agent.result("session/list", {"cwd": bench.cwd})["sessions"]
    assert session not in [it["sessionId"] for it in listed], listed


@check("session/fork gives another session that goes on")
def _(bench):
    agent = bench.start()
    has(agent, "sessionCapabilities", "fork")
    session = bench.session(agent)
    bench.say(agent, session)
    fork = agent.result("session/fork", {"sessionId": session, "cwd": bench.cwd, "mcpServers": []})["sessionId"]
    assert fork != session
    assert bench.say(agent, fork)["stopReason"] == "end_turn"


@check("session/close ends a session: a prompt in it is an error")
def _(bench):
    agent = bench.start()
    has(agent, "sessionCapabilities", "close")
    session = bench.session(agent)
    agent.result("session/close", {"sessionId": session})
    prompt = [{"type": "text", "text": "hello"}]
    error_of(agent.ask("session/prompt", {"sessionId": session, "prompt": prompt}))


@check("a mode that is listed can be set")
def _(bench):
    agent = bench.start()
    opened = agent.ask("session/new", {"cwd": bench.cwd, "mcpServers": []})
    modes = opened.get("result", {}).get("modes")
    if not modes:
        raise Skip("no modes")
    session = opened["result"]["sessionId"]
    for mode in modes["availableModes"]:
        agent.result("session/set_mode", {"sessionId": session, "modeId": mode["id"]})


@check("an unknown mode is an error")
def _(bench):
    agent = bench.start()
    opened = agent.ask("session/new", {"cwd": bench.cwd, "mcpServers": []})
    if not opened.get("result", {}).get("modes"):
        raise Skip("no modes")
    error_of(agent.ask("session/set_mode", {"sessionId": opened["result"]["sessionId"], "modeId": "no-such"}))


@check("a config option that is listed can be set, and the answer has it")
def _(bench):
    agent = bench.start()
    opened = agent.ask("session/new", {"cwd": bench.cwd, "mcpServers": []})
    options = opened.get("result", {}).get("configOptions")
    if not options:
        raise Skip("no config options")
    option = next((it for it in options if it["type"] == "select"), None)
    if option is None:
        raise Skip("no option to select")
    value = option["options"][0].get("value") or option["options"][0]["options"][0]["value"]
    answer = agent.result(
        "session/set_config_option",
        {"sessionId": opened["result"]["sessionId"], "configId": option["id"], "value": value},
    )
    now = next(it for it in answer["configOptions"] if it["id"] == option["id"])
    assert now["currentValue"] == value, now


@check("every id is answered once, whatever its form")
def _(bench):
    agent = bench.start()
    for id in ["a", 7, -1, "7", 2**40]:
        error_of(agent.begin("session/explode", {}, id).get(timeout=10)[1])
    ids = [json.dumps(it["id"]) for it in map(json.loads, agent.lines) if "id" in it and "method" not in it]
    assert len(ids) == len(set(ids)), ids


@check("the end of its input ends the process, with exit code 0")
def _(bench):
    code = bench.start().end(within=10)
    assert code == 0, code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schema")
    parser.add_argument("--prompt", default="say hello")
    parser.add_argument("--name")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    name = options.name or options.command[0]
    failed, counts = False, {"pass": 0, "FAIL": 0, "-": 0}
    print(f"| check | {name} |\n|---|---|")
    all_lines = []
    for title, _, run in CHECKS:
        with tempfile.TemporaryDirectory() as cwd:
            bench = Bench(options.command, options.prompt, cwd)
            try:
                run(bench)
                outcome, why = "pass", ""
            except Skip as skipped:
                outcome, why = "-", f" ({skipped})"
            except Exception as error:  # a check that breaks has failed
                outcome, why, failed = "FAIL", f": {type(error).__name__}: {str(error)[:160]}", True
            for number, agent in enumerate(bench.started):
                agent.end()
                all_lines.append((agent.lines, bench.asked.get(number, {})))
        counts[outcome] += 1
        print(f"| {title} | {outcome}{why} |".replace("\n", " "), flush=True)
    if options.schema:
        schema = json.load(open(options.schema))
        count, wrong = 0, []
        for lines, asked in all_lines:
            count += len(lines)
            wrong.extend(validate.check(schema, lines, asked))
        outcome = "pass" if not wrong else f"FAIL: {len(wrong)} of {count} lines: {wrong[0][:300]}"
        counts["FAIL" if wrong else "pass"] += 1
        failed |= bool(wrong)
        print(f"| every line fits the protocol's JSON Schema ({count} lines) | {outcome} |".replace("\n", " "))
    print(f"\n{name}: {counts['pass']} passed, {counts['FAIL']} failed, {counts['-']} not offered")
    sys.exit(failed)


if __name__ == "__main__":
    main()
