"""What the page shows of agents: sub-agents, groups, triggers, the plan, the meter of the context, switches, and calls of MCP clients."""

import json
import re
import subprocess
import threading
import urllib.request

from driver import wait_until


def call(tool, **arguments):
    return {"tool": tool, "arguments": arguments}


def lines(*answers):
    return "".join(json.dumps(it) + "\n" for it in answers)


def shows_sub_agents_inside_each_other_and_opens_them(stage):
    folder = f"{stage.options.room}/nested"
    profile = "---\ndescription: looks\nmodel: script:{file}\n---\n{text}\n"
    config = {
        "haft.toml": "[subagent]\nnested = true\n",
        "agents/scout.md": profile.format(file=f"{folder}.config/scout.jsonl", text="SCOUT"),
        "agents/deep.md": profile.format(file=f"{folder}.config/deep.jsonl", text="DEEP"),
        "scout.jsonl": lines({"say": "I have somebody look deeper.", "calls": [call("subagent", prompt="look deeper", profile="deep")]}, {"say": "It is one."}),
        "deep.jsonl": lines({"calls": [call("read", path="a.txt")]}, {"say": "Deep down it says one.", "chunks": 30, "chunk_ms": 100}),
    }
    server = stage.server("nested", [{"calls": [call("subagent", prompt="look", profile="scout")]}, {"say": "All looked."}], {"a.txt": "one\n"}, config=config)
    it = stage.page(server)
    it.sign_in()
    it.new_session("Look.")
    scout = it.page.locator(".entry.agent", has_text="scout").first
    scout.get_by_role("img", name="at work").first.wait_for()
    scout.locator(".call-head").first.click()
    scout.locator(".agent-body .entry.text", has_text="I have somebody look deeper.").wait_for()
    deep = scout.locator(".agent-body .entry.agent", has_text="deep")
    deep.locator(".call-head").first.click()
    deep.locator(".entry.call", has_text="read").first.wait_for()
    # It grows while it is open.
    deep.locator(".entry.text", has_text="Deep down it says one.").wait_for()
    it.wait_for_end()
    scout.locator(".agent-body .entry.text", has_text="It is one.").wait_for()
    assert scout.get_by_role("img", name="done").count() >= 2 and scout.get_by_role("img", name="at work").count() == 0
    assert it.page.locator(".entry.text", has_text="All looked.").locator("xpath=ancestor::*[contains(@class, 'agent')]").count() == 0
    # The panel has both, the inner one below the outer one, and leads to it.
    it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
    it.page.get_by_role("tab", name="Agents").click()
    rows = it.page.locator(".agent-tree li")
    assert [re.match("[a-z]+", one)[0] for one in rows.all_inner_texts()] == ["scout", "deep"], rows.all_inner_texts()
    depths = rows.evaluate_all("(all) => all.map((it) => it.style.getPropertyValue('--depth'))")
    assert depths == ["0", "1"], depths
    rows.first.get_by_role("button").click()
    wait_until("the card has the focus", lambda: it.page.evaluate("document.activeElement.matches('.entry.agent')"))
    it.axe(axe(stage), "sub-agents")
    it.check_clean()


def axe(stage):
    with open(stage.options.axe) as file:
        return file.read()


GROUP = """[group]
name = "play"
[group.root]
model = "script:root.jsonl"
[[group.agent]]
name = "worker"
model = "script:worker.jsonl"
tools = []
[[group.agent]]
name = "critic"
model = "script:critic.jsonl"
tools = []
"""


class Group:
    """`haft group run` in the workspace of a server."""

    def __init__(self, stage, server, root, recipe=GROUP):
        self.server = server
        for name, text in (("group.toml", recipe), ("root.jsonl", root), ("worker.jsonl", lines({"say": "I work on it."})), ("critic.jsonl", lines({"say": "I read it."}))):
            (server.folder / name).write_text(text)
        self.process = subprocess.Popen(self.command("--trust", "group", "run", "--json", "group.toml", "go", "--stay"), cwd=server.folder, env=server.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        stage.ends.append(self.end)

    def command(self, *words):
        return [self.server.haft, "--dir", str(self.server.folder), *words]

    def send(self, *words):
        subprocess.run(self.command("group", "send", *words), env=self.server.env, check=True, capture_output=True)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def shows_a_group_as_a_graph_with_inboxes_pause_and_stop(stage):
    server = stage.server("group", [{"say": "Hello."}])
    it = stage.page(server)
    it.sign_in()
    # The page is there before the group is.
    it.go("groups")
    it.page.get_by_text("No groups.").wait_for()
    group = Group(stage, server, lines({"say": "ready", "calls": [call("group_send", to="worker", message="begin with the lexer")]}, {"say": "sent"}))
    card = it.page.locator(".group")
    card.wait_for()
    member = lambda name: card.locator(".rows > li", has=it.page.get_by_role("link", name=name, exact=True))
    wait_until("all are idle", lambda: all(member(one).count() and "idle" in member(one).inner_text() for one in ("root", "worker", "critic")))
    graph = card.locator("svg.graph")
    assert graph.locator(".node").count() == 3
    ways = graph.get_attribute("aria-label")
    assert "worker sends to root" in ways and graph.locator(".edge").count() == ways.count("sends to"), ways
    # A message of one to the other is among what happened.
    card.locator(".messages li", has_text="root → worker").filter(has_text="begin with the lexer").first.wait_for()
    # A member that is paused keeps what comes in its inbox.
    member("critic").get_by_role("button", name="Pause").click()
    wait_until("it is paused", lambda: "paused" in member("critic").inner_text())
    name = card.locator("h2").inner_text()
    group.send(name, "critic", "what about spaces?")
    inbox = member("critic").locator("details.inbox")
    inbox.get_by_text("1 in the inbox").click()
    inbox.locator("li", has_text="what about spaces?").wait_for()
    assert "critic (1)" in graph.text_content()
    group.send(name, "critic", "and tabs?")
    # It stays open as more comes, as does a long message in it.
    inbox.locator("li", has_text="and tabs?").wait_for()
    story = "A long story. " * 60
    group.send(name, "critic", story)
    long = inbox.locator("li details")
    long.locator("summary").click()
    assert long.locator("p").text_content().strip() == story.strip()
    group.send(name, "critic", "and that is all")
    inbox.locator("li", has_text="and that is all").wait_for()
    assert long.locator("p").is_visible()
    it.axe(axe(stage), "a group")
    member("critic").get_by_role("button", name="Resume").click()
    wait_until("the inbox is empty", lambda: inbox.count() == 0)
    # Its session is a click away.
    member("critic").get_by_role("link").click()
    it.page.locator(".entry.text", has_text="I read it.").wait_for()
    it.go("groups")
    card.wait_for()
    member("worker").get_by_role("button", name="Stop").click()
    wait_until("one is stopped", lambda: "stopped" in member("worker").inner_text())
    card.locator("header").get_by_role("button", name="Stop").click()
    wait_until("the group has ended", lambda: group.process.poll() is not None)
    wait_until("the page shows it", lambda: card.locator("header").get_by_role("button", name="Stop").count() == 0 or "interrupted" in card.locator("header").inner_text() or "stopped" in card.locator("header").inner_text())
    it.check_clean()


def shows_triggers_with_their_next_fire_and_their_history(stage):
    script = [{"calls": [call("add_timer", interval=3600, prompt="Look around.", name="beat")]}, {"say": "Armed."}, {"expect": ["Look around."], "say": "I looked around."}]
    server = stage.server("triggers", script)
    it = stage.page(server)
    it.sign_in()
    it.go("triggers")
    it.page.get_by_text("No triggers.").wait_for()
    other = stage.page(server, storage_state=it.context.storage_state())
    other.page.goto(server.base)
    session = other.new_session("Set a timer.")
    other.page.locator(".asks .approval").get_by_role("button", name="Allow once").click()
    other.page.locator(".entry.text", has_text="Armed.").wait_for()
    # The page that is open shows it by itself.
    card = it.page.locator("section.card", has_text="beat")
    card.wait_for()
    assert "in 1 h" in card.inner_text() or re.search("in (59|60) min", card.inner_text()), card.inner_text()
    assert "Look around." in card.inner_text() and "0 fires" in card.inner_text(), card.inner_text()
    card.get_by_text("History").click()
    card.get_by_role("button", name="Fire now").click()
    wait_until("it has fired", lambda: "1 fire" in card.inner_text())
    card.locator("details li", has_text=re.compile("fire", re.IGNORECASE)).first.wait_for()
    other.page.locator(".entry.text", has_text="I looked around.").wait_for()
    card.get_by_role("button", name="Pause").click()
    wait_until("it is paused", lambda: "paused" in card.locator("header").inner_text())
    card.get_by_role("button", name="Resume").click()
    wait_until("it is armed", lambda: "paused" not in card.locator("header").inner_text())
    it.axe(axe(stage), "triggers")
    card.get_by_role("button", name="Remove").click()
    it.page.locator("dialog").get_by_role("button", name="Remove it").click()
    it.page.get_by_text("No triggers.").wait_for()
    assert it.api("GET", f"sessions/{session}")["status"] == 200
    it.check_clean()


def shows_the_list_of_tasks_as_a_plan(stage):
    tasks = ["Read the lexer", "Mend it", "Add a test"]
    script = [
        {"calls": [call("todo", action="set", tasks=tasks)]}, {"say": "A plan."},
        {"calls": [call("todo", action="update", task=1, status="done"), call("todo", action="update", task=2, status="in_progress")]}, {"say": "On."},
        {"calls": [call("todo", action="clear")]}, {"say": "Over."},
    ]
    server = stage.server("plan", script)
    it = stage.page(server)
    it.sign_in()
    it.new_session("Plan it.")
    chip = it.page.get_by_role("button", name=re.compile("^Plan "))
    chip.wait_for()
    assert chip.inner_text() == "Plan 0 of 3"
    chip.click()
    plan = it.page.locator(".panel .plan li")
    assert [one.split("\n")[-1] for one in plan.all_inner_texts()] == tasks, plan.all_inner_texts()
    it.wait_for_end()
    it.say("Go on.")
    it.wait_for_end(2)
    wait_until("the plan goes on", lambda: chip.inner_text() == "Plan 1 of 3")
    marks = lambda: plan.get_by_role("img").evaluate_all("(all) => all.map((it) => it.ariaLabel)")
    assert marks() == ["done", "in progress", "pending"], marks()
    it.say("Clear it.")
    it.wait_for_end(3)
    wait_until("there is none", lambda: chip.is_hidden())
    it.page.get_by_text("There is no plan.").wait_for()
    it.check_clean()


def shows_how_full_the_context_is_with_tokens_and_cost(stage):
    script = [
        {"say": "One.", "usage": {"input": 40000, "output": 120, "cached": 10000, "kept": 0, "reasoning": 0}},
        {"say": "Two.", "usage": {"input": 60000, "output": 80, "cached": 30000, "kept": 0, "reasoning": 0}},
    ]
    server = stage.server("meter", script)
    it = stage.page(server)
    it.sign_in()
    it.new_session("One.")
    it.wait_for_end()
    meter = it.page.get_by_role("button", name=re.compile("^Context and cost"))
    meter.wait_for()
    before = meter.inner_text()
    it.say("Two.")
    it.wait_for_end(2)
    wait_until("it grows", lambda: meter.inner_text() != before)
    meter.click()
    facts = it.page.locator("table.facts")
    facts.wait_for()
    row = lambda name: facts.locator("tr", has_text=name).locator("td").inner_text()
    assert row("Answered") == "200 tokens", facts.inner_text()
    assert row("Read from the cache").startswith("40"), facts.inner_text()
    assert row("Cost"), facts.inner_text()
    # The parts of the context, by the process that runs the session.
    it.page.locator(".popover pre.output, [role=dialog] pre.output").first.wait_for()
    it.check_clean()


def switches_the_model_and_the_profile_for_every_browser(stage):
    folder = f"{stage.options.room}/switches"
    config = {
        "haft.toml": f'[models.quick]\nmodel = "script:{folder}.config/quick.jsonl"\n',
        "quick.jsonl": lines({"say": "unused"}, {"say": "I am quick."}, {"say": "I am careful."}),
        "agents/careful.md": "---\ndescription: careful\n---\nCAREFUL\n",
    }
    server = stage.server("switches", [{"say": "Hello."}], sandbox="workspace", config=config)
    first = stage.page(server)
    first.sign_in()
    session = first.new_session("Hello.")
    first.wait_for_end()
    second = stage.page(server, storage_state=first.context.storage_state())
    second.page.goto(f"{server.base}/#/session/{session}")
    switch = [it.page.locator(".switches button").first for it in (first, second)]
    for it in switch:
        it.wait_for()
    assert first.page.locator(".switches").get_by_text("sandboxed").is_visible()
    switch[0].click()
    first.page.get_by_role("menuitem", name=re.compile("^quick")).click()
    for it in switch:
        wait_until("the model is another one", lambda it=it: "quick" in it.inner_text())
    first.say("Who are you?")
    for it in (first, second):
        it.page.locator(".entry.text", has_text="I am quick.").wait_for()
    switch[1].click()
    second.page.get_by_role("menuitem", name="Profile careful").click()
    for it in switch:
        wait_until("the profile is shown", lambda it=it: "careful" in it.inner_text())
    switch[0].click()
    first.page.get_by_role("menuitem", name="No profile").click()
    for it in switch:
        wait_until("there is none", lambda it=it: "careful" not in it.inner_text() and "quick" in it.inner_text())
    for it in (first, second):
        it.check_clean()


def switches_the_sandbox_for_every_browser(stage):
    script = [{"say": "Hello."}, {"calls": [call("write", path="a.txt", content="1\n")]}, {"say": "Tried."}, {"calls": [call("write", path="a.txt", content="1\n")]}, {"say": "Written."}]
    server = stage.server("sandbox", script, sandbox="workspace")
    first = stage.page(server)
    first.sign_in()
    session = first.new_session("Hello.")
    first.wait_for_end()
    second = stage.page(server, storage_state=first.context.storage_state())
    second.page.goto(f"{server.base}/#/session/{session}")
    third = stage.page(server)
    third.page.goto(first.api("POST", "codes", {"role": "approve", "name": "phone"})["body"]["address"])
    third.page.get_by_role("navigation", name="Sessions").wait_for()
    third.go(f"session/{session}")
    switch = [it.page.locator(".switches button").nth(1) for it in (first, second, third)]
    shown = lambda words: [wait_until(f"it is {words}", lambda it=it: it.inner_text() == words) for it in switch]
    shown("sandboxed")
    assert switch[2].is_disabled() and "own" in switch[2].get_attribute("title")
    switch[0].click()
    items = first.page.get_by_role("menuitem")
    assert items.all_inner_texts() == ["reads only", "sandboxed\nnow"], items.all_inner_texts()
    items.first.click()
    # Narrower needs no second word, and every browser shows who did it.
    shown("reads only")
    for it in (first, second, third):
        it.page.locator(".entry.note", has_text="switched the sandbox: reads only").wait_for()
    first.say("Write.")
    first.wait_for_end(2)
    assert not (server.folder / "a.txt").exists()
    for sure in (False, True):
        switch[1].click()
        second.page.get_by_role("menuitem", name="sandboxed").click()
        dialog = second.page.get_by_role("dialog")
        assert "will change files of the workspace" in dialog.inner_text(), dialog.inner_text()
        second.axe(axe(stage), "the dialog of a wider sandbox")
        dialog.get_by_role("button", name="Widen it" if sure else "Keep it").click()
        shown("sandboxed" if sure else "reads only")
    first.say("Again.")
    first.wait_for_end(3)
    assert (server.folder / "a.txt").exists()
    # A new session begins in the one that is chosen.
    first.go("new")
    first.page.get_by_label("Sandbox").select_option("reads only")
    first.say("Hello.")
    first.page.wait_for_url("**/#/session/*")
    wait_until("the new session only reads", lambda: first.page.locator(".switches button").nth(1).inner_text() == "reads only")
    third.go("new")
    third.page.get_by_role("heading", name="New session").wait_for()
    assert third.page.get_by_label("Sandbox").is_hidden()
    first.page.reload()
    wait_until("after a reload, too", lambda: first.page.locator(".switches button").nth(1).inner_text() == "reads only")
    for it in (first, second, third):
        it.check_clean()


class McpClient:
    """A client of `/mcp` without elicitation."""

    def __init__(self, server, token, name="robot"):
        self.address, self.session = f"{server.base}/mcp", None
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self.post({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}})
        self.post({"method": "notifications/initialized"})

    def post(self, message):
        headers = {**self.headers, **({"Mcp-Session-Id": self.session} if self.session else {})}
        request = urllib.request.Request(self.address, json.dumps({"jsonrpc": "2.0", **message}).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.session = answer.headers.get("mcp-session-id") or self.session
            return [json.loads(line[6:]) for line in answer.read().decode().splitlines() if line.startswith("data: {")]


def approves_a_call_of_an_mcp_client(stage):
    server = stage.server("mcp", [{"say": "Hello."}], {".git/hooks/other": ""}, sandbox="workspace")
    it = stage.page(server)
    it.sign_in()
    token = it.api("POST", "tokens", {"name": "ci", "role": "approve"})["body"]["token"]
    client = McpClient(server, token)
    it.go("approvals")
    it.page.get_by_text("Nothing waits for you.").wait_for()
    answers = []
    write = lambda content: {"id": 2, "method": "tools/call", "params": {"name": "write", "arguments": {"path": ".git/hooks/pre-commit", "content": content}}}
    calling = lambda content: threading.Thread(target=lambda: answers.append(client.post(write(content))[-1]["result"]), daemon=True)
    for name, content, there in (("Refuse", "no\n", None), ("Allow once", "#!/bin/sh\n", "#!/bin/sh\n")):
        thread = calling(content)
        thread.start()
        card = it.page.locator(".waiting-list .approval")
        card.wait_for()
        assert "robot wants to" in card.inner_text() and "with the token of ci" in card.inner_text() and "pre-commit" in card.inner_text(), card.inner_text()
        assert card.get_by_role("link").count() == 0, "there is no session to open"
        it.axe(axe(stage), "an approval of an MCP client")
        card.get_by_role("button", name=name).click()
        thread.join(30)
        file = server.folder / ".git/hooks/pre-commit"
        assert (file.read_text() if file.exists() else None) == there
        wait_until("the card goes", lambda: card.count() == 0)
    assert [bool(it.get("isError")) for it in answers] == [True, False], answers
    it.check_clean()


PARTS = [
    shows_sub_agents_inside_each_other_and_opens_them, shows_a_group_as_a_graph_with_inboxes_pause_and_stop, shows_triggers_with_their_next_fire_and_their_history,
    shows_the_list_of_tasks_as_a_plan, shows_how_full_the_context_is_with_tokens_and_cost, switches_the_model_and_the_profile_for_every_browser,
    switches_the_sandbox_for_every_browser,
    approves_a_call_of_an_mcp_client,
]
