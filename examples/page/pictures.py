"""Draws the page as `docs/` shows it: one session with calls, diffs, a plan and an approval, at three sizes, light and dark."""

import subprocess
from pathlib import Path

from agents import Group, call, lines

LEXER = '''def tokens(text):
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        start = at
        while text[at].isdigit():
            at += 1
        yield text[start:at] or text[at]
        at += at == start
'''
TEST = '''from lexer import tokens


def test_number_at_the_end():
    assert list(tokens("1 + 12")) == ["1", "+", "12"]
'''
SIZES = {"wide": (1440, 900), "tablet": (768, 1024), "phone": (360, 740)}


def script():
    tasks = ["Find why `1 + 12` fails", "Mend the lexer", "Add a test", "Run the tests before each commit"]
    mended = [{"old": "        while text[at].isdigit():", "new": "        while at < len(text) and text[at].isdigit():"}]
    summary = "The inner loop read past the end of the text. Now it stops there:\n\n| input | before | after |\n|---|---|---|\n| `1 + 2 ` | `1`, `+`, `2` | the same |\n| `1 + 12` | *IndexError* | `1`, `+`, `12` |\n\nThe last step is a hook for git, which needs your approval."
    return [
        {"think": "The panic comes from the inner loop, which reads past the end where a number is last.", "say": "I read the lexer first.", "calls": [call("todo", action="set", tasks=tasks), call("read", path="lexer.py")]},
        {"say": "The inner loop reads `text[at]` where there is no more text. It has to end there.", "calls": [call("edit", path="lexer.py", edits=mended), call("todo", action="update", task=1, status="done"), call("todo", action="update", task=2, status="done")]},
        {"calls": [call("write", path="test_lexer.py", content=TEST), call("shell", command="python3 -B -c 'import test_lexer as t; t.test_number_at_the_end(); print(\"1 passed\")'"), call("todo", action="update", task=3, status="done"), call("todo", action="update", task=4, status="in_progress")]},
        {"say": summary, "calls": [call("write", path=".git/hooks/pre-commit", content="#!/bin/sh\npython3 -m pytest -q\n")]},
        {"say": "Done."},
    ]


def draw(stage):
    folder = Path(stage.options.pictures)
    folder.mkdir(parents=True, exist_ok=True)
    server = stage.server("lexer", script(), {"lexer.py": LEXER, ".git/hooks/other": ""})
    first = stage.page(server)
    first.sign_in()
    session = first.new_session("The lexer fails on `1 + 12`. Find out why, mend it, and add a test.")
    # The command, and then the hook for git.
    first.page.locator(".asks .approval", has_text="python3").get_by_role("button", name="Allow once").click()
    first.page.locator(".asks .approval", has_text="pre-commit").wait_for()
    state = first.context.storage_state()
    for name, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            it = stage.page(server, storage_state=state, color_scheme=scheme, reduced_motion="reduce", device_scale_factor=1 if name == "wide" else 2, has_touch=name != "wide")
            it.page.set_viewport_size({"width": width, "height": height})

            def keep(what, it=it, name=name, scheme=scheme):
                # A picture with all that was loaded for it.
                it.page.wait_for_timeout(400)
                it.page.screenshot(path=folder / f"{what}-{name}-{scheme}.png")

            it.page.goto(f"{server.base}/#/session/{session}")
            it.page.locator(".asks .approval").wait_for()
            keep("approval")
            if name == "wide":
                it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
                it.page.locator(".panel .diff").first.wait_for()
                it.page.locator(".scroller").evaluate("(it) => { it.scrollTop = 0 }")
                keep("panel")
            else:
                it.page.locator(".scroller").evaluate("(it) => { it.scrollTop = 0 }")
                keep("session")
            for place in ("", "new", "approvals", "settings"):
                it.go(place)
                keep(place or "list")
            it.check_clean()
            it.context.close()
            stage.pages.remove(it)


def draw_agents(stage):
    """The views of agents: a sub-agent inside another, the plan, a group, a commit."""
    folder = Path(stage.options.pictures)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "haft.toml": "[subagent]\nnested = true\n",
        "agents/scout.md": f"---\ndescription: looks\nmodel: script:{stage.options.room}/views.config/scout.jsonl\n---\nSCOUT\n",
        "agents/reader.md": f"---\ndescription: reads\nmodel: script:{stage.options.room}/views.config/reader.jsonl\n---\nREADER\n",
        "scout.jsonl": lines({"say": "Somebody reads the lexer for me.", "calls": [call("subagent", prompt="Read lexer.py and say where it may fail.", profile="reader")]}, {"say": "The inner loop reads past the end of the text."}),
        "reader.jsonl": lines({"calls": [call("read", path="lexer.py")]}, {"say": "Line 8: `text[at]` where `at` may be `len(text)`."}),
    }
    mended = [{"old": "        while text[at].isdigit():", "new": "        while at < len(text) and text[at].isdigit():"}]
    script = [
        {"calls": [call("todo", action="set", tasks=["Find why `1 + 12` fails", "Mend the lexer", "Add a test"]), call("subagent", prompt="Find out why `1 + 12` fails.", profile="scout"), call("read", path="lexer.py")]},
        {"say": "I mend it there.", "calls": [call("edit", path="lexer.py", edits=mended), call("write", path="test_lexer.py", content=TEST), call("todo", action="update", task=1, status="done"), call("todo", action="update", task=2, status="in_progress")]},
        {"say": "Mended.", "usage": {"input": 41000, "output": 900, "cached": 20000, "kept": 0, "reasoning": 0}},
    ]
    server = stage.server("views", script, {"lexer.py": LEXER, ".gitignore": "*.jsonl\ngroup.toml\n"}, sandbox="workspace", config=config)
    for words in (["init", "-q", "-b", "main"], ["config", "user.name", "Anna"], ["config", "user.email", "anna@example.org"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", server.folder, *words], check=True, env={**server.env, "GIT_CONFIG_NOSYSTEM": "1"})
    first = stage.page(server)
    first.sign_in()
    session = first.new_session("The lexer fails on `1 + 12`. Find out why, and mend it.")
    first.wait_for_end()
    root = lines({"say": "ready", "calls": [call("group_send", to="worker", message="Begin with the lexer; the parser can wait.")]}, {"say": "sent"})
    group = Group(stage, server, root)
    first.go("groups")
    member = lambda name: first.page.locator(".group .rows > li", has=first.page.get_by_role("link", name=name, exact=True))
    member("critic").get_by_role("button", name="Pause").click()
    member("critic").get_by_text("paused").wait_for()
    first.page.locator(".messages li", has_text="root → worker").first.wait_for()
    group.send(first.page.locator(".group h2").inner_text(), "critic", "What about spaces at the end?")
    state = first.context.storage_state()
    for name, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            it = stage.page(server, storage_state=state, color_scheme=scheme, reduced_motion="reduce", device_scale_factor=1, has_touch=name != "wide")
            it.page.set_viewport_size({"width": width, "height": height})

            def keep(what, it=it, name=name, scheme=scheme):
                it.page.wait_for_timeout(300)
                it.page.screenshot(path=folder / f"{what}-{name}-{scheme}.png")

            it.page.goto(f"{server.base}/#/session/{session}/plan")
            card = it.page.locator(".entry.agent").first
            it.page.locator(".plan li").first.wait_for()
            keep("plan")
            it.page.get_by_role("button", name="Close the panel").click()
            it.page.locator(".scroller").evaluate("(it) => { it.scrollTop = 0 }")
            card.locator(".call-head").first.click()
            card.locator(".agent-body .entry.agent .call-head").first.click()
            keep("sub-agents")
            it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
            it.page.get_by_role("tab", name="Changes").click()
            it.page.get_by_role("button", name="Against HEAD").click()
            it.page.get_by_label("Message of the commit").fill("Stop at the end of the text")
            keep("commit")
            it.go("groups")
            it.page.locator("details.inbox summary").click()
            keep("group")
            it.check_clean()
            it.context.close()
            stage.pages.remove(it)
