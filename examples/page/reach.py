"""Who can't use a mouse, a large screen or their eyes: keys, narrow screens, and axe on everything that opens."""

import re
import time

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


PARTS = [fits_320_pixels_and_has_no_violations_of_axe, everything_that_opens_has_no_violations_of_axe, finds_everything_by_the_keyboard]
