"""Texts that would run a program where a page takes them for HTML: in every place where the page shows a text of somebody else."""

import json
import threading

import agents
from driver import wait_until
from payloads import file_name, payloads

OPEN = "for (const one of document.querySelectorAll('details')) one.open = true"


def runs_no_text_of_a_model_a_tool_or_a_name(stage):
    table = payloads()
    assert len(table) >= 100, len(table)
    batches = [table[at : at + 12] for at in range(0, len(table), 12)]
    script = []
    for batch in batches:
        calls = []
        for payload in batch:
            calls.append({"tool": "write", "arguments": {"path": f"d/{file_name(payload)}", "content": f"{payload}\n"}})
        script.append({"think": "\n".join(batch), "say": "\n\n".join(batch), "calls": calls})
    script.append({"say": "Read.", "calls": [{"tool": "read", "arguments": {"path": f"d/{file_name(it)}"}} for it in table]})
    script.append({"calls": [{"tool": "ask_user", "arguments": {"question": table[0], "options": table[:40]}}]})
    script.append({"say": "Done.", "calls": [{"tool": "write", "arguments": {"path": f".git/hooks/{file_name(table[1])}", "content": "\n".join(table)}}]})
    script.append({"say": "Done."})
    server = stage.server("xss", script)
    (server.folder / ".git" / "hooks").mkdir(parents=True)

    live = live_payloads(stage.browser, table)
    assert live >= 40, f"only {live} of {len(table)} payloads run on a page without protection: the table proves nothing"

    it = stage.page(server)
    it.sign_in()
    session = it.new_session("\n".join(table))
    form = it.page.locator(".asks .question")
    form.wait_for(timeout=60_000)
    assert form.get_by_role("button").count() >= 40
    everything = "() => { for (const it of document.querySelectorAll('[aria-expanded=false]:not([aria-haspopup]), details:not([open])')) it.click?.(); for (const it of document.querySelectorAll('details')) it.open = true; }"
    # The list shows what is near the visible part: everything is opened as it is scrolled by.
    it.page.evaluate(everything)
    height = it.page.evaluate("document.querySelector('.scroller').scrollHeight")
    seen = 0
    for top in range(0, height, 3000):
        it.page.evaluate("(top) => { document.querySelector('.scroller').scrollTop = top }", top)
        it.page.evaluate(everything)
        it.page.wait_for_timeout(20)
        seen = max(seen, it.page.locator(".call.open").count())
    assert seen > 5, "no card was opened"
    form.get_by_role("button").first.click()
    approval = it.page.locator(".asks .approval")
    approval.wait_for()
    it.page.evaluate(everything)
    for tab in ("Changes", "Files"):
        if it.page.locator(".panel").is_hidden():
            it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
        it.page.get_by_role("tab", name=tab).click()
        it.page.wait_for_timeout(300)
    it.page.locator(".tree .row-button", has_text="d").first.click()
    it.page.wait_for_timeout(300)
    for place in ("", "approvals", f"session/{session}", "settings"):
        it.go(place)
        it.page.wait_for_timeout(150)
        assert_nothing_ran(it)
    it.go("approvals")
    it.page.get_by_role("button", name="Refuse").first.click()
    it.go(f"session/{session}")
    it.wait_for_end()
    # A title is changed between turns.
    for payload in table:
        answer = it.api("PATCH", f"sessions/{session}", {"title": payload})
        assert answer["status"] == 200, answer
    it.page.wait_for_timeout(300)
    assert_nothing_ran(it)
    it.check_clean()


def runs_no_text_of_triggers_or_mcp_clients(stage):
    table = payloads()
    armed = [agents.call("add_timer", interval=3600, prompt="\n".join(table), name="all"), *(agents.call("add_timer", interval=3600, prompt=it, name=it) for it in table[:12])]
    server = stage.server("xss-agents", [{"calls": armed}, {"say": "Armed."}], {".git/hooks/other": ""}, sandbox="workspace")
    it = stage.page(server)
    it.sign_in()
    it.new_session("Arm timers.")
    while not it.page.locator(".entry.end").count():
        button = it.page.locator(".asks .approval").get_by_role("button", name="Allow once")
        if button.count():
            button.first.evaluate("(it) => it.click()")
        it.page.wait_for_timeout(50)
    it.go("triggers")
    card = it.page.locator("section.card").filter(has_text=table[0])
    card.first.wait_for()
    assert "\n".join(table)[-40:] in it.page.locator("section.card", has=it.page.get_by_role("heading", name="all", exact=True)).text_content()
    it.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    it.page.wait_for_timeout(300)
    assert_nothing_ran(it)
    # A client of MCP, by its name, its call and what it says.
    token = it.api("POST", "tokens", {"name": "robot", "role": "approve"})["body"]["token"]
    it.go("approvals")
    for at in range(0, len(table), 31):
        client = agents.McpClient(server, token, table[at])
        arguments = {"path": f".git/hooks/{file_name(table[at])}", "content": "\n".join(table)}
        thread = threading.Thread(target=client.post, args=({"id": 2, "method": "tools/call", "params": {"name": "write", "arguments": arguments}},), daemon=True)
        thread.start()
        card = it.page.locator(".waiting-list .approval")
        card.wait_for()
        it.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        it.page.wait_for_timeout(100)
        assert_nothing_ran(it)
        card.get_by_role("button", name="Refuse").click()
        thread.join(30)
        wait_until("the card goes", lambda card=card: card.count() == 0)
    it.check_clean()


def live_payloads(browser, table):
    """Returns how many of the payloads run where a page takes them for HTML."""
    context = browser.new_context()
    page = context.new_page()
    page.route("https://evil.example/**", lambda it: it.abort())
    live = 0
    for payload in table:
        page.goto("about:blank")
        page.set_content("<!doctype html><body>")
        page.evaluate("(it) => { document.body.innerHTML = it; for (const one of document.querySelectorAll('details')) one.open = true; document.querySelector('[autofocus]')?.focus?.(); }", payload)
        page.wait_for_timeout(12)
        live += 1 if page.evaluate("top.ran ?? 0") else 0
    context.close()
    return live


def assert_nothing_ran(it):
    state = it.page.evaluate(
        """() => ({
            ran: window.ran ?? 0,
            elements: [...document.querySelectorAll('script:not([src^="/assets/"]), #app iframe, object, embed, base, form[action], meta[http-equiv], #app style, marquee, template')].map((it) => it.outerHTML.slice(0, 200)),
            handlers: [...document.querySelectorAll('*')].flatMap((it) => [...it.attributes]).filter((it) => /^on|^style$|^srcdoc$/i.test(it.name) && it.ownerElement.closest('svg, .prose, .gist, .path, .name, .output, h1')).map((it) => it.name),
            links: [...document.querySelectorAll('[href], [src]')].map((it) => it.getAttribute('href') ?? it.getAttribute('src')).filter((it) => !/^(#|\\/|https?:|mailto:|blob:)/.test(it)),
        })""")
    assert state == {"ran": 0, "elements": [], "handlers": [], "links": []}, state


def packed(texts, most):
    """Returns the texts with several in one, as far as they fit into so many characters."""
    all = []
    for it in texts:
        it = flat(it)
        if all and len(all[-1]) + 1 + len(it) <= most:
            all[-1] += f" {it}"
        else:
            all.append(it)
    return all


def flat(text):
    """Returns the text as a row shows it: in one line."""
    return " ".join(text.split())


def runs_no_text_of_groups(stage):
    table = payloads()
    server = stage.server("xss-groups", [{"say": "Hello."}], sandbox="workspace")
    it = stage.page(server)
    it.sign_in()
    it.go("groups")
    it.page.get_by_text("No groups.").wait_for()
    # Names of agents and channels, and prompts of triggers, which a recipe chooses.
    for names in (list(dict.fromkeys(table))[at::2] for at in (0, 1)):
        members = [hostile_agent(name) for name in names]
        channels = "".join(f"{json.dumps(name)} = {json.dumps(name)}\n" for name in names)
        recipe = f"[group]\nname = {json.dumps(names[0])}\n[group.root]\nmodel = \"script:root.jsonl\"\n{''.join(members)}[group.channels]\n{channels}"
        group = agents.Group(stage, server, agents.lines({"say": "Ready."}), recipe)
        links = it.page.locator(".group .rows > li > a")
        wait_until("each agent has its row", lambda: set(names) <= set(links.all_text_contents()), 30)
        assert it.page.locator(".group svg.graph .node").count() > len(names)
        it.page.evaluate(OPEN)
        assert_nothing_ran(it)
        it.go("triggers")
        prompts = it.page.locator("section.card > p:not(.small)")
        wait_until("each trigger has its card", lambda: set(names) <= set(prompts.all_text_contents()))
        it.page.evaluate(OPEN)
        assert_nothing_ran(it)
        it.go("groups")
        group.end()
    # Messages, as they wait in an inbox and once they are read.
    messages = packed(table, 190)
    batches = [messages[at : at + 20] for at in range(0, len(messages), 20)]
    sent = [{"calls": [agents.call("group_send", to="critic", message=one) for one in batch]} for batch in batches]
    root = agents.lines({"say": "Ready."}, *(answer for one in sent for answer in (one, {"say": "Sent."})))
    group = agents.Group(stage, server, root)
    card = it.page.locator(".group").filter(has_text="play")
    critic = card.locator(".rows > li", has=it.page.get_by_role("link", name="critic", exact=True))
    name = card.locator("h2").inner_text()
    for batch in batches:
        critic.get_by_role("button", name="Pause").click()
        critic.get_by_text("paused").wait_for()
        group.send(name, "root", "Go.")
        critic.get_by_text(f"{len(batch)} in the inbox").click()
        rows = critic.locator("details.inbox li span.grow, details.inbox li summary")
        wait_until("the inbox has them", lambda: rows.all_text_contents() == batch)
        assert_nothing_ran(it)
        critic.get_by_role("button", name="Resume").click()
        wait_until("the inbox is empty", lambda: critic.locator("details.inbox").count() == 0)
        shown = card.locator("details[data-of^=messages] li").locator("span.grow, summary").all_text_contents()
        assert set(batch) <= set(shown), set(batch) - set(shown)
        assert_nothing_ran(it)
    it.check_clean()


def hostile_agent(name):
    quoted = json.dumps(name)
    armed = f"triggers = [{{ type = \"timer\", interval = 3600, prompt = {quoted} }}]\n"
    return f"[[group.agent]]\nname = {quoted}\ndescription = {quoted}\nmodel = \"script:worker.jsonl\"\ntools = []\nsend = [{quoted}]\nwires = [\"root\"]\n{armed}"


PARTS = [runs_no_text_of_a_model_a_tool_or_a_name, runs_no_text_of_triggers_or_mcp_clients, runs_no_text_of_groups]
