"""Who can't use a mouse, a large screen or their eyes: keys, narrow screens, and axe on everything that opens."""

import re
import subprocess
import time
import urllib.error
import urllib.request

from agents import axe, call, lines
from driver import wait_until

TEXT = "An answer with `code` and **weight**. " + "word " * 200 + "\n\n- one\n- two\n\n```rust\nfn main() {}\n```"


def fits_320_pixels_and_has_no_violations_of_axe(stage):
    source = axe(stage)
    ask = {"say": TEXT, "calls": [{"tool": "edit", "arguments": {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}}, {"tool": "todo", "arguments": {"action": "set", "tasks": ["One", "Two"]}}, {"tool": "write", "arguments": {"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"}}]}
    server = stage.server("axe", [ask, {"say": "Done."}])
    (server.folder / "a.txt").write_text("one\ntwo\nthree\n" + "a_very_long_line_" * 40 + "\n")
    (server.folder / ".git" / "hooks").mkdir(parents=True)
    it = stage.page(server)
    it.sign_in()
    session = it.new_session("Look at a_very_long_word_" + "x" * 90)
    it.page.locator(".asks .approval").wait_for()
    places = ["", "new", f"session/{session}", "approvals", "settings", "triggers", "groups"]
    for width, theme in ((320, "dark"), (1440, "light"), (1440, "dark")):
        it.page.set_viewport_size({"width": width, "height": 740})
        it.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for place in places:
            it.go(place)
            it.page.locator(".side" if not place and width == 320 else "main").first.wait_for()
            time.sleep(0.15)
            too_wide = it.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert too_wide <= 0, f"{place or 'list'} is {too_wide} pixels too wide at {width}"
            beyond = it.page.evaluate("[...document.querySelectorAll('main, main > *, main form, main select, main button, .side')].filter((it) => it.getBoundingClientRect().right > innerWidth + 1 && !it.closest('.diff, pre')).map((it) => it.outerHTML.slice(0, 80))")
            assert not beyond, f"{place or 'list'} at {width}: beyond the edge: {beyond}"
            high = it.page.evaluate("document.querySelector('main > header')?.offsetHeight ?? 0")
            assert high < 100, f"{place or 'list'} at {width}: the head is {high} pixels high"
            if width == 1440 or place in (f"session/{session}", "approvals"):
                it.axe(source, f"{place or 'list'}, {width}, {theme}")
    it.go(f"session/{session}")
    for tab in ("Changes", "Files", "Jobs", "Plan", "Agents", "Terminal"):
        if it.page.locator(".panel").is_hidden():
            it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
        it.page.get_by_role("tab", name=tab).click()
        time.sleep(0.2)
        it.axe(source, f"panel {tab}")
    it.page.keyboard.press("Control+k")
    it.page.get_by_role("combobox").wait_for()
    it.axe(source, "the palette")
    it.check_clean()


def everything_that_opens_has_no_violations_of_axe(stage):
    usage = {"input": 40000, "output": 120, "cached": 10000, "kept": 0, "reasoning": 0}
    armed = {"calls": [call("add_timer", interval=3600, prompt="Look around.", name="beat")]}
    folder = f"{stage.options.room}/opened"
    config = {
        "haft.toml": f'[models.quick]\nmodel = "script:{folder}.config/quick.jsonl"\n', "quick.jsonl": lines({"say": "Quick."}),
        "agents/careful.md": "---\ndescription: careful\n---\nCAREFUL\n",
    }
    server = stage.server("opened", [{"say": TEXT, "usage": usage}, armed, {"say": "Armed.", "usage": usage}], sandbox="workspace", config=config)
    it = stage.page(server)
    it.sign_in()
    session = it.new_session("Hello.")
    it.wait_for_end()
    it.say("Set a timer.")
    it.page.locator(".asks .approval").get_by_role("button", name="Allow once").click()
    it.wait_for_end(2)
    source, page = axe(stage), it.page
    session_menu = page.get_by_role("button", name="Session menu")
    item = lambda name: page.get_by_role("menuitem", name=name)

    def of_session_menu(name):
        session_menu.click()
        item(name).click()

    def sandbox(name):
        page.locator(".switches button").nth(1).click()
        item(name).click()

    def to_reading():
        sandbox("reads only")
        wait_until("it reads only", lambda: page.locator(".switches button").nth(1).inner_text() == "reads only")
        sandbox("sandboxed")

    here = f"session/{session}"
    openings = [
        ("the menu of the session", here, session_menu.click, "menu"),
        ("the menu of the model", here, page.locator(".switches button").first.click, "menu"),
        ("the menu of the sandbox", here, page.locator(".switches button").nth(1).click, "menu"),
        ("the menu of a message", here, page.locator(".entry.prompt").last.get_by_role("button").click, "menu"),
        ("the dialog for a name", here, lambda: of_session_menu("Rename…"), "dialog"),
        ("the dialog to delete", here, lambda: of_session_menu("Delete…"), "dialog"),
        ("the dialog of shares", here, lambda: of_session_menu("Share a link…"), "dialog"),
        ("the dialog of a wider sandbox", here, to_reading, "dialog"),
        ("context and cost", here, page.get_by_role("button", name=re.compile("^Context and cost")).click, "dialog"),
        ("the palette", here, lambda: page.keyboard.press("Control+k"), "dialog"),
        ("the palette with nothing found", here, lambda: (page.keyboard.press("Control+k"), page.get_by_role("combobox").fill("qqqq")), "dialog"),
        ("the keys", "", lambda: page.keyboard.press("?"), "dialog"),
        ("the dialog to remove a trigger", "triggers", page.get_by_role("button", name="Remove").click, "dialog"),
        ("the dialog to sign out", "settings", page.get_by_role("button", name="End the sign-in of").click, "dialog"),
    ]
    for width, height in ((1440, 900), (360, 740)):
        for theme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            for name, place, opens, role in openings:
                name = f"{name}, {width}, {theme}"
                it.go(place)
                page.wait_for_function("(place) => (document.body.dataset.at === 'list' ? '' : document.body.dataset.at) === place.split('/')[0]", arg=place)
                page.evaluate("document.activeElement?.blur()")
                opens()
                box = page.get_by_role(role)
                box.wait_for()
                it.axe(source, name)
                edges = box.evaluate("(it) => { const box = it.getBoundingClientRect(); return [box.left, box.top, innerWidth - box.right, innerHeight - box.bottom]; }")
                assert min(edges) >= 0, f"{name} goes beyond the edge: {edges}"
                assert box.evaluate("(it) => it.contains(document.activeElement)"), f"{name} does not have the focus"
                page.keyboard.press("Escape")
                wait_until(f"{name} is closed", lambda box=box: box.count() == 0)
    it.check_clean()


def finds_everything_by_the_keyboard(stage):
    server = stage.server("keys", [{"say": "Hello there."}])
    it = stage.page(server)
    it.sign_in()
    session = it.new_session("Find me by my words.")
    it.wait_for_end()
    keys = it.page.keyboard
    keys.press("Escape")
    for press, place in (("g s", "settings"), ("g a", "approvals"), ("n", "new")):
        it.page.evaluate("document.activeElement?.blur()")
        for key in press.split():
            keys.press(key)
        it.page.wait_for_function("(place) => location.hash === `#/${place}`", arg=place)
        wait_until("it is shown", lambda place=place: it.page.evaluate("document.body.dataset.at") == place)
    keys.press("Control+k")
    it.page.get_by_role("combobox", name="Find a session or a command").fill("my words")
    keys.press("Enter")
    it.page.wait_for_function("(session) => location.hash.includes(session)", arg=session)
    it.page.locator(".entry.text").wait_for()
    it.page.evaluate("document.activeElement?.blur()")
    keys.press("j")
    wait_until("an entry has the focus", lambda: it.page.evaluate("document.activeElement.matches('.entry')"))
    keys.press("c")
    assert it.page.evaluate("document.activeElement.id") == "composer"
    keys.press("Escape")
    keys.press("?")
    it.page.get_by_role("heading", name="Keys").wait_for()
    it.check_clean()


def works_by_the_keyboard_alone(stage):
    edit = call("edit", path="a.txt", edits=[{"old": "two", "new": "2"}])
    hook = lambda name: {"calls": [call("write", path=f".git/hooks/{name}", content="#!/bin/sh\n")]}
    slow = {"say": TEXT, "chunks": 200, "chunk_ms": 100}
    server = stage.server("keyboard", [{"say": "I change it.", "calls": [edit]}, hook("one"), hook("two"), {"say": "Done."}, slow], {"a.txt": "one\ntwo\n", ".git/hooks/other": ""})
    file = server.folder / "a.txt"
    it = stage.page(server)
    it.sign_in()
    page, press = it.page, it.page.keyboard.press
    focused = lambda: page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()")

    there = """(name) => [...document.querySelectorAll('a, button, input, select, textarea, [tabindex]')]
        .some((it) => it.offsetParent && (it.getAttribute('aria-label') || it.textContent.trim()) === name)"""

    def tab_to(name, most=120):
        # What is drawn meanwhile may take the focus away.
        wait_until(f"{name} is there", lambda: page.evaluate(there, name))
        for _ in range(most):
            press("Tab")
            if focused() == name:
                return
        raise AssertionError(f"Tab does not lead to {name}, and is at {focused()}")

    # Everything of a session: begin it, decide, open cards, panel and menus, undo, stop.
    press("n")
    page.get_by_role("textbox", name="Message").wait_for()
    page.keyboard.type("Change it.")
    press("Enter")
    ask = page.locator(".asks .approval")
    ask.wait_for()
    press("Escape")
    for key, hook_name in (("0", "hooks/one"), ("1", "hooks/two")):
        ask.get_by_text(hook_name).first.wait_for()
        press("a")
        press(key)
        wait_until("it is decided", lambda hook_name=hook_name: not ask.get_by_text(hook_name).count())
    it.wait_for_end()
    assert not (server.folder / ".git/hooks/one").exists() and (server.folder / ".git/hooks/two").exists()
    page.evaluate("document.activeElement.blur()")
    card = page.locator(".entry.call", has_text="edit").first
    for _ in range(12):
        press("j")
        if card.evaluate("(it) => it === document.activeElement"):
            break
    press("Enter")
    wait_until("the card is open", lambda: card.locator("[aria-expanded=true]").count() == 1)
    assert file.read_text() == "one\n2\n"
    # The newest change is that of the hook.
    for undone in (lambda: not (server.folder / ".git/hooks/two").exists(), lambda: file.read_text() == "one\ntwo\n"):
        press("u")
        wait_until("the newest change is undone", undone)
    press("p")
    tabs = page.get_by_role("tab")
    tabs.first.wait_for()
    tab_to("Changes")
    for name in ("Files", "Jobs", "Plan", "Agents", "Terminal"):
        press("ArrowRight")
        wait_until(f"{name} is shown", lambda name=name: page.get_by_role("tab", name=name).get_attribute("aria-selected") == "true" and focused() == name)
    tab_to("Close the panel")
    press("Enter")
    wait_until("the panel is closed", lambda: page.locator(".panel").is_hidden())
    page.locator(".top button").first.focus()
    tab_to("Session menu")
    press("Enter")
    menu = page.get_by_role("menu")
    menu.wait_for()
    items = menu.get_by_role("menuitem").all_inner_texts()
    for key, wanted in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", -1), ("Home", 0)):
        press(key)
        assert page.evaluate("document.activeElement.innerText") == items[wanted], (key, focused())
    press("Escape")
    assert focused() == "Session menu", focused()
    press("c")
    page.keyboard.type("Go on, slowly.")
    press("Enter")
    page.locator(".entry.text", has_text="An answer with").wait_for()
    press("Control+.")
    page.locator(".entry.end", has_text="topped").wait_for()
    for command, place in (("triggers", "triggers"), ("groups", "groups")):
        press("Control+k")
        page.get_by_role("combobox").wait_for()
        page.keyboard.type(command)
        press("Enter")
        page.wait_for_function("(place) => document.body.dataset.at === place", arg=place)
    it.check_clean()


def settings_make_devices_tokens_and_take_back_what_stays(stage):
    ask = {"calls": [call("write", path=".git/hooks/pre-commit", content="#!/bin/sh\n")]}
    server = stage.server("settings", [ask, {"say": "Done."}], {".git/hooks/other": ""}, sandbox="workspace")
    it = stage.page(server)
    it.sign_in()
    session = it.new_session("Make a hook.")
    card = it.page.locator(".asks .approval")
    card.get_by_text("What a longer permission allows").click()
    card.get_by_role("button", name="For this workspace").click()
    it.wait_for_end()
    share = it.api("POST", "shares", {"session": session})
    assert share["status"] == 201, share
    it.go("settings")
    section = lambda name: it.page.locator("section.settings", has=it.page.get_by_role("heading", name=name, exact=True))
    # Colors, at once and after a reload.
    paper = lambda: it.page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = paper()
    section("Appearance").get_by_text("Dark").click()
    wait_until("it is dark", lambda: paper() != light)
    dark = paper()
    it.page.reload()
    section("Appearance").wait_for()
    assert paper() == dark
    section("Appearance").get_by_text("Light", exact=True).click()
    wait_until("it is light", lambda: paper() == light)
    # Another device.
    section("Another device").get_by_label("Name of the device").fill("tablet")
    section("Another device").get_by_label("Role").select_option("view")
    section("Another device").get_by_role("button", name="Make an address").click()
    other = stage.page(server)
    other.page.goto(section("Another device").locator("code.secret").inner_text())
    other.page.get_by_role("navigation", name="Sessions").wait_for()
    assert other.api("POST", "sessions", {})["status"] == 403
    # A token, which is shown once and ends with its removal.
    tokens = section("Tokens")
    tokens.get_by_label("Name of the token").fill("ci")
    tokens.get_by_label("Role").select_option("say")
    tokens.get_by_role("button", name="Make a token").click()
    token = tokens.locator("code.secret").inner_text()

    def status():
        request = urllib.request.Request(f"{server.base}/api/v1/info", headers={"Authorization": f"Bearer {token}"})
        try:
            return urllib.request.urlopen(request, timeout=10).status
        except urllib.error.HTTPError as error:
            return error.code

    assert status() == 200
    it.axe(axe(stage), "settings with a token")
    tokens.get_by_role("button", name="Remove").click()
    wait_until("the token is revoked", lambda: status() == 401)
    # What stays. Servers of other parts keep their links in the same folder.
    assert len(it.api("GET", "grants")["body"]["grants"]) == 1
    permissions = section("Permissions that stay")
    permissions.get_by_role("button", name="Take back").click()
    permissions.get_by_text("None.").wait_for()
    assert it.api("GET", "grants")["body"]["grants"] == []
    row = section("Links to sessions").locator("li", has_text=share["body"]["id"])
    row.get_by_role("button", name="Revoke").click()
    wait_until("the link is revoked", lambda: row.count() == 0 and it.api("GET", f"shared/{share['body']['id']}")["status"] == 404)
    it.check_clean()


def opens_a_folder_that_the_owner_used_haft_in_and_closes_it(stage):
    server = stage.server("folders", [{"say": "In the other folder."}], {"a.txt": "one\n"})
    other = server.folder.parent / "folders-other"
    other.mkdir(exist_ok=True)
    (other / "b.txt").write_text("two\n")
    used = subprocess.run([stage.options.haft, "call", "read", '{"path": "b.txt"}'], cwd=other, env=server.env, capture_output=True, text=True)
    assert used.returncode == 0, used
    it = stage.page(server)
    it.sign_in()
    it.go("new")
    choice = it.page.get_by_role("combobox", name="Workspace")
    choice.select_option(label=f"Open {other}")
    it.page.get_by_text(f"In {other}").wait_for()
    assert choice.evaluate("(it) => it.selectedOptions[0].text") == "folders-other"
    it.say("Where are you?")
    it.page.wait_for_url("**/#/session/*")
    it.wait_for_end()
    served = lambda: [one["path"] for one in it.api("GET", "workspaces")["body"]["workspaces"]]
    assert served() == [str(server.folder), str(other)]
    # Closed again where it was opened; the folder of the command line is not offered.
    it.go("new")
    end = it.page.get_by_role("button", name="Close folder")
    it.page.get_by_text(f"In {server.folder}").wait_for()
    assert end.is_hidden()
    choice.select_option(label="folders-other")
    end.click()
    it.page.get_by_role("option", name=f"Open {other}").wait_for(state="attached")
    assert served() == [str(server.folder)]
    it.check_clean()


PARTS = [opens_a_folder_that_the_owner_used_haft_in_and_closes_it, works_by_the_keyboard_alone, settings_make_devices_tokens_and_take_back_what_stays, fits_320_pixels_and_has_no_violations_of_axe, everything_that_opens_has_no_violations_of_axe, finds_everything_by_the_keyboard]
