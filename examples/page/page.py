"""What the page promises, shown in Chromium on the built program with a model that reads its answers from a script."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

import agents
import hostile
import kinds
import reach
from driver import Cutter, Stage, launch, wait_until
from paint import measure
from parts import play
from pictures import draw, draw_agents

LONG = "A long answer with `code` and **weight**. " + " ".join(f"word{n}" for n in range(400)) + "\n\n- one\n- two\n\n```rust\nfn main() {}\n```"


def signs_in_by_a_code_that_is_good_once(stage):
    server = stage.server("sign-in", [{"say": "Hello."}])
    first = stage.page(server)
    first.sign_in()
    assert "code" not in first.page.url, first.page.url
    assert "code" not in first.page.evaluate("document.cookie"), "a script reads the cookie"
    second = stage.page(server)
    second.page.goto(server.address)
    second.page.get_by_role("alert").wait_for()
    assert second.page.get_by_label("Or sign in with a token").is_visible()
    first.page.reload()
    first.page.get_by_role("navigation", name="Sessions").wait_for()
    first.check_clean()


def streams_an_answer_and_shows_its_calls(stage):
    script = [
        {"think": "The file first.", "say": LONG, "chunks": 40, "chunk_ms": 25, "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]},
        {"say": "It says *one*."},
    ]
    server = stage.server("stream", script)
    (server.folder / "a.txt").write_text("one\ntwo\n")
    it = stage.page(server)
    it.sign_in()
    it.new_session("What does a.txt say?")
    seen = set()
    wait_until("text grows", lambda: (seen.add(len(it.page.locator(".entry.text").first.inner_text())) if it.page.locator(".entry.text").count() else None) or len(seen) > 4)
    it.wait_for_end()
    assert it.page.locator(".entry.text strong").first.inner_text() == "weight"
    assert it.page.locator(".entry.text").last.locator("em").inner_text() == "one"
    card = it.page.locator(".entry.call", has_text="read")
    card.get_by_role("button").first.click()
    assert "two" in card.locator(".output").inner_text()
    it.page.locator(".reasoning button").first.click()
    assert it.page.locator(".thought").first.inner_text() == "The file first."
    it.check_clean()


def undoes_a_change_from_its_diff_and_redoes_it(stage):
    server = stage.server("undo", [{"say": "I change it.", "calls": [{"tool": "edit", "arguments": {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}}]}, {"say": "Done."}])
    file = server.folder / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    it = stage.page(server)
    it.sign_in()
    it.new_session("Change it.")
    it.wait_for_end()
    diff = it.page.locator(".entry .diff")
    assert diff.locator(".l.plus .code").inner_text() == "2" and diff.locator(".l.minus .code").inner_text() == "two"
    assert file.read_text() == "one\n2\nthree\n"
    diff.get_by_role("button", name="Undo").click()
    wait_until("the file is as before", lambda: file.read_text() == "one\ntwo\nthree\n")
    it.page.get_by_role("button", name="Undo the undo").click()
    wait_until("the undo is undone", lambda: file.read_text() == "one\n2\nthree\n")
    it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
    it.page.locator(".panel .diff").first.wait_for()
    it.check_clean()


def two_browsers_approve_at_once_and_one_wins(stage):
    ask = {"say": "I change the hook.", "calls": [{"tool": "write", "arguments": {"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"}}]}
    server = stage.server("approve", [ask, {"say": "Done."}])
    (server.folder / ".git" / "hooks").mkdir(parents=True)
    first = stage.page(server)
    first.sign_in()
    code = first.api("POST", "codes", {"role": "approve", "name": "phone"})["body"]["address"]
    second = stage.page(server)
    second.page.goto(code)
    second.page.get_by_role("navigation", name="Sessions").wait_for()
    session = first.new_session("Make a hook.")
    second.go("approvals")
    cards = [first.page.locator(".asks .approval"), second.page.locator(".waiting-list .approval")]
    cards[1].wait_for()
    # Also on a page that is made when it is known already.
    second.go("settings")
    second.go("approvals")
    for card in cards:
        card.wait_for()
        assert "pre-commit" in card.inner_text(), card.inner_text()
    assert not second.page.get_by_text("Nothing waits for you.").is_visible()
    # Both press at the same moment: the second request is on its way before the first is answered.
    wrong = first.page.evaluate(
        """async (session) => {
            const open = (await (await fetch('/api/v1/approvals')).json()).approvals[0].approval;
            const answer = await fetch(`/api/v1/sessions/${session}/approvals/${open.id}`, { method: 'POST', headers: { 'X-Haft': '1', 'Content-Type': 'application/json' }, body: JSON.stringify({ decision: 'once', hash: '0'.repeat(64) }) });
            return answer.status;
        }""", session)
    assert wrong == 409, f"a decision for another call was taken: {wrong}"
    for it in (first, second):
        it.page.evaluate("document.querySelector('.approval .primary').click()")
    first.wait_for_end()
    assert (server.folder / ".git/hooks/pre-commit").exists()
    lines = first.page.locator(".entry.note", has_text="allowed by").all_inner_texts()
    assert len(lines) == 1, lines
    for card in cards:
        wait_until("the card goes", lambda card=card: card.count() == 0)
    first.check_clean()
    second.check_clean()


def a_permission_for_the_workspace_holds_for_the_next_session(stage):
    ask = {"say": "I change the hook.", "calls": [{"tool": "write", "arguments": {"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n", "overwrite": True}}]}
    server = stage.server("project", [ask, {"say": "Done."}], sandbox="workspace")
    hook = server.folder / ".git/hooks/pre-commit"
    hook.parent.mkdir(parents=True)
    it = stage.page(server)
    it.sign_in()
    it.new_session("Make a hook.")
    card = it.page.locator(".asks .approval")
    card.get_by_text("What a longer permission allows").click()
    card.get_by_role("button", name="For this workspace").click()
    it.wait_for_end()
    hook.unlink()
    it.new_session("Make it again.")
    it.wait_for_end()
    assert hook.exists() and it.page.locator(".approval").count() == 0, "it was asked again"
    grants = it.api("GET", "grants")["body"]["grants"]
    assert len(grants) == 1 and not grants[0].get("session") and "pre-commit" in grants[0]["effect"], grants
    it.check_clean()


def answers_a_question_by_its_form(stage):
    ask = {"calls": [{"tool": "ask_user", "arguments": {"question": "Which one?", "options": ["red", "blue"]}}]}
    server = stage.server("question", [ask, {"expect": ["blue"], "say": "Blue it is."}])
    it = stage.page(server)
    it.sign_in()
    it.new_session("Ask me.")
    form = it.page.locator(".asks .question")
    form.get_by_role("button", name="blue").click()
    it.wait_for_end()
    assert "Blue it is." in it.page.locator(".entry.text").last.inner_text()
    it.check_clean()


def uploads_by_button_drop_and_paste(stage):
    server = stage.server("upload", [{"expect": ["a.txt", "first file", "b.txt", "second file"], "say": "Three files."}])
    it = stage.page(server)
    it.sign_in()
    it.go("new")
    it.page.locator(".start .composer").wait_for()
    it.page.locator("input[type=file]").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"first file"})
    drop = """([kind, target, name, text]) => {
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(text)], name));
        const event = kind === 'paste' ? new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }) : new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
        document.querySelector(target).dispatchEvent(event);
    }"""
    it.page.evaluate(drop, ["drop", "main", "b.txt", list(b"second file")])
    it.page.evaluate(drop, ["paste", "#composer", "c.bin", [0xFF, 0xFE, 0x00, 0xC3, 0x28] * 20])
    it.page.wait_for_function("() => document.querySelectorAll('.chips .there').length === 3")
    it.say("Read them.")
    it.wait_for_end()
    assert "Three files." in it.page.locator(".entry.text").last.inner_text()
    assert it.page.locator(".attached li").count() == 3
    it.check_clean()


def shows_the_transcript_byte_for_byte_after_the_server_was_killed_in_mid_stream(stage):
    slow = {"think": "Slowly, as asked.", "say": LONG, "chunks": 200, "chunk_ms": 20}
    server = stage.server("reconnect", [slow, slow, {"say": "The end."}])
    it = stage.page(server)
    it.sign_in()
    session = it.new_session("Go.")
    for turn in range(2):
        texts = it.page.locator(".entry.text")
        wait_until("some text is there", lambda turn=turn: texts.count() > turn and len(texts.nth(turn).inner_text()) > 200)
        server.kill()
        it.page.locator(".connection:not([hidden])").wait_for()
        server.start()
        it.page.wait_for_function("() => document.querySelector('.connection').hidden")
        it.say("Go on.")
    it.wait_for_end(2)
    wait_until("the last answer is there", lambda: "The end." in it.page.locator(".entry.text").last.inner_text() or it.page.locator(".entry.text").count() >= 3)
    wait_until("the turn is over", lambda: it.page.locator(".stop").is_hidden())
    assert sum(len(it) for it in check_texts(it, session)) > 500
    it.check_clean()


def check_texts(it, session):
    """Compares the texts on the screen with the transcript, byte for byte, and returns them."""
    it.page.get_by_role("button", name="Session menu").click()
    it.page.get_by_role("menuitem", name="Show text as it was written").click()
    shown = it.page.locator(".entry.text .prose").evaluate_all("(all) => all.map((it) => it.textContent)")
    rows = it.api("GET", f"sessions/{session}/rows?limit=20000")["body"]["rows"]
    texts = {}
    for row in rows:
        if row["event"]["event"] == "text" and not row.get("agent"):
            said = row["event"]["text"]
            texts[row["item"]] = said if row.get("whole") else texts.get(row["item"], "") + said
    assert shown == list(texts.values()), f"the page has {shown}, the transcript {list(texts.values())}"
    return shown


def shows_the_transcript_byte_for_byte_through_cut_connections(stage):
    cuts, watchers = stage.options.cuts, 8
    words = "Grüße, 漢字 and 🙂, *in* many pieces; `code`. " * 6
    text = "\n\n".join(f"{words}\n\n- one {n}\n- two" for n in range(20))
    # The page reconnects after a quarter of a second: so the answers last until the cuts are made.
    seconds = max(4, cuts / watchers * 0.55)
    answers = [{"think": words, "say": text, "chunks": 200, "chunk_ms": int(seconds / 5 * 1000 / 400), "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]} for _ in range(5)]
    server = stage.server("cuts", [*answers, {"say": "The end."}], {"a.txt": "one\n"})
    cutter = Cutter(server, cuts, seed=20261128)
    stage.ends.append(cutter.close)
    browser = stage.launch(f"--host-resolver-rules=MAP 127.0.0.1:{server.port} 127.0.0.1:{cutter.port}")
    first = stage.page(server, browser)
    first.sign_in()
    session = first.new_session("Go.")
    pages = [first]
    # Each has connections of its own: a browser has six to a server.
    for _ in range(watchers - 1):
        pages.append(stage.page(server, browser, storage_state=first.context.storage_state()))
        pages[-1].page.goto(f"{server.base}/#/session/{session}")
    for it in pages:
        it.page.locator(".entry.text", has_text="The end.").wait_for(timeout=(seconds + 60) * 1000)
    assert cutter.left == 0, f"only {cutter.done} of {cuts} connections were cut"
    # Formatted as one shows them that reads all rows at once; then as they were written.
    late = stage.page(server, browser, storage_state=first.context.storage_state())
    late.page.goto(f"{server.base}/#/session/{session}")
    late.page.locator(".entry.text", has_text="The end.").wait_for()
    entries = "(all) => all.map((it) => it.textContent)"
    wanted = late.page.locator(".entry.text .prose").evaluate_all(entries)
    for it in pages:
        wait_until("the formatted texts are the same", lambda it=it: it.page.locator(".entry.text .prose").evaluate_all(entries) == wanted)
        assert it.page.locator(".entry.call:not(.reasoning)").count() == 5
        assert len(check_texts(it, session)) == 6
        it.check_clean()
    print(f"  {cutter.done} connections cut", flush=True)


KINDS = ["turn_began", "asked", "reasoning", "text", "writing", "called", "approval_opened", "approval_closed", "question_opened", "answered", "used", "undone"]


def shows_the_transcript_after_the_server_was_killed_at_each_kind_of_row(stage):
    calls = [
        {"tool": "edit", "arguments": {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}},
        {"tool": "shell", "arguments": {"command": "for n in 1 2 3; do echo $n; sleep 0.2; done"}},
        {"tool": "write", "arguments": {"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"}},
        {"tool": "ask_user", "arguments": {"question": "Which one?", "options": ["red", "blue"]}},
    ]
    first = {"think": "Slowly, as asked. " * 20, "say": "Grüße, 漢字 and 🙂. " * 30, "chunks": 20, "chunk_ms": 20, "calls": calls}
    later = [{"say": f"Answer {n}, äöü."} for n in range(9)]
    for kind in KINDS:
        server = stage.server(f"killed-{kind}", [first, *later], {"a.txt": "one\ntwo\n", ".git/hooks/other": ""})
        it = stage.page(server)
        it.sign_in()
        # The page's own fold says what it has seen.
        it.page.evaluate("""async () => {
            const { Fold } = await import('/assets/fold.js');
            window.kinds = new Set();
            const add = Fold.prototype.add;
            Fold.prototype.add = function (row) { window.kinds.add(row.event.event); add.call(this, row); };
        }""")
        session = it.new_session("Go.")
        act = """(kind) => {
            if (window.kinds.has(kind)) return true;
            document.querySelector('.asks .approval .primary')?.click();
            if (kind !== 'approval_opened') document.querySelector('.asks .question button')?.click();
            if (kind === 'undone') [...document.querySelectorAll('.entry .diff button:not(:disabled)')].find((it) => it.textContent.trim() === 'Undo')?.click();
            return false;
        }"""
        it.page.wait_for_function(act, arg=kind, polling=20)
        server.kill()
        it.page.locator(".connection:not([hidden])").wait_for()
        server.start()
        it.page.wait_for_function("() => document.querySelector('.connection').hidden")
        # A turn that had hardly begun is begun again, and asks again.
        it.say("Go on.")
        it.page.wait_for_function("""() => {
            document.querySelector('.asks .approval .primary')?.click();
            document.querySelector('.asks .question button')?.click();
            return document.querySelectorAll('.entry.prompt').length === 2 && document.querySelector('.stop').hidden;
        }""", polling=50)
        assert check_texts(it, session), kind
        first_texts = it.page.locator(".entries").inner_text()
        late = stage.page(server, storage_state=it.context.storage_state())
        late.page.goto(f"{server.base}/#/session/{session}")
        wait_until(f"a late page has the same, {kind}", lambda late=late, text=first_texts: late.page.locator(".entries").inner_text() == text)
        it.check_clean()
        stage.end()


def shows_a_command_as_interrupted_that_ended_with_the_server(stage):
    server = stage.server("command", [{"say": "Hello."}, {"say": "On."}])
    it = stage.page(server)
    it.sign_in()
    it.new_session("Hello.")
    it.wait_for_end()
    it.say("!echo begun; sleep 300")
    card = it.page.locator(".entry.call", has_text="shell")
    card.get_by_role("img", name="running").wait_for()
    server.kill()
    it.page.locator(".connection:not([hidden])").wait_for()
    server.start()
    it.page.wait_for_function("() => document.querySelector('.connection').hidden")
    it.say("Go on.")
    it.page.locator(".entry.text", has_text="On.").wait_for()
    card.get_by_role("img", name="interrupted").wait_for()
    it.check_clean()


def keeps_little_of_a_long_session_in_the_page(stage):
    steps = [{"say": f"Step {n}. " + "word " * 20, "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]} for n in range(45)]
    script = [*steps, {"say": "The end of turn 1."}, *steps, {"say": "The end of turn 2."}, *steps, {"say": "The end of turn 3."}]
    server = stage.server("long", script)
    (server.folder / "a.txt").write_text("one\n")
    it = stage.page(server)
    it.sign_in()
    session = it.new_session("Go.")
    for turn in (1, 2, 3):
        it.page.locator(".entry.text", has_text=f"The end of turn {turn}.").wait_for(timeout=60_000)
        if turn < 3:
            it.say("Go on.")
    it.go("settings")
    # Otherwise what follows may still find the old page of the session.
    it.page.locator("section.settings").first.wait_for()
    it.go(f"session/{session}")
    it.page.locator(".entry.text", has_text="The end of turn 3.").wait_for()
    nodes = it.page.locator(".entry").count()
    assert nodes < 200, f"{nodes} entries are in the page at once"
    # A key is pressed once, also while entries are still measured, and holds.
    scroller, end = it.page.locator(".scroller"), it.page.locator(".entry.text", has_text="The end of turn 3.")
    first = it.page.locator(".entry.prompt .prose", has_text=re.compile("^Go\\.$"))
    frames = "async (n) => { while (n--) await new Promise(requestAnimationFrame); return document.querySelector('.scroller').scrollTop; }"
    for _ in range(5):
        scroller.press("Home")
        first.wait_for()
        assert it.page.evaluate(frames, 20) == 0, "the page left its beginning"
        assert is_in_sight(first)
        scroller.press("End")
        end.wait_for()
        it.page.evaluate(frames, 20)
        assert is_in_sight(end)
    # A short scroll up leaves the end, however near it is, as the list grows.
    scroller.hover()
    it.page.mouse.wheel(0, -20)
    it.page.evaluate(frames, 30)
    before = it.page.evaluate(frames, 1)
    it.page.evaluate("() => { const more = document.createElement('p'); more.className = 'sr'; more.style.cssText = 'position: static; height: 300px'; document.querySelector('.entries').append(more); }")
    assert it.page.evaluate(frames, 10) == before, "the page went back to its end"
    it.check_clean()


def is_in_sight(locator):
    return locator.evaluate("(it) => { const [a, b] = [it.getBoundingClientRect(), document.querySelector('.scroller').getBoundingClientRect()]; return a.bottom > b.top && a.top < b.bottom; }")


def ends_the_sign_in_of_another_browser(stage):
    server = stage.server("sign-ins", [{"say": "Hello."}])
    first = stage.page(server)
    first.sign_in()
    code = first.api("POST", "codes", {"role": "approve", "name": "phone"})["body"]["address"]
    second = stage.page(server)
    second.page.goto(code)
    second.page.get_by_role("navigation", name="Sessions").wait_for()
    first.go("settings")
    row = first.page.locator("section.settings", has=first.page.get_by_role("heading", name="Signed in")).locator("li")
    row.nth(1).wait_for()
    assert row.count() == 2 and row.filter(has_text="this browser").count() == 1, row.all_inner_texts()
    first.page.get_by_role("button", name="End the sign-in of phone").click()
    wait_until("the list is short", lambda: row.count() == 1)
    second.page.reload()
    second.page.get_by_label("Or sign in with a token").wait_for()
    # Whoever does not own the server has no list.
    first.page.locator("section.settings", has_text="this browser").get_by_role("button", name="End").click()
    first.page.get_by_role("button", name="Sign out").last.click()
    first.page.get_by_label("Or sign in with a token").wait_for()
    assert not first.errors and not second.errors, (first.errors, second.errors)


def commits_chosen_files_of_the_difference_to_head(stage):
    edits = [{"tool": "edit", "arguments": {"path": name, "edits": [{"old": "two", "new": "2"}]}} for name in ("a.txt", "b.txt")]
    server = stage.server("head", [{"calls": edits}, {"say": "Done."}], {name: "one\ntwo\n" for name in ("a.txt", "b.txt", "c.txt")}, sandbox="workspace")
    git = lambda *words: subprocess.run(["git", "-C", server.folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True, text=True).stdout
    git("init", "-q", "-b", "main")
    for name, value in (("user.name", "Anna"), ("user.email", "anna@example.org")):
        git("config", name, value)
    git("add", ".")
    git("commit", "-qm", "first")
    (server.folder / "c.txt").write_text("by hand\n")
    it = stage.page(server)
    it.sign_in()
    it.new_session("Change them.")
    it.wait_for_end()
    it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
    it.page.get_by_role("button", name="Against HEAD").click()
    panel = it.page.locator(".panel")
    panel.get_by_label("Message of the commit").wait_for()
    assert panel.locator(".diff").count() == 2
    assert "main" in panel.locator(".panel-bar").inner_text()
    it.axe(Path(stage.options.axe).read_text(), "the difference to HEAD")
    panel.get_by_role("checkbox", name="b.txt").uncheck()
    panel.get_by_text("1 other file that differs").click()
    assert not panel.get_by_role("checkbox", name="c.txt").is_checked()
    panel.get_by_label("Message of the commit").fill("Change a")
    panel.get_by_role("button", name="Commit 1 file").click()
    wait_until("it is committed", lambda: git("log", "--format=%s", "-1").strip() == "Change a")
    assert git("show", "--name-only", "--format=", "HEAD").split() == ["a.txt"]
    wait_until("the other file is left", lambda: panel.locator(".diff").count() == 1)
    # A refusal is shown in git's words.
    (server.folder / ".git/hooks").mkdir(exist_ok=True)
    hook = server.folder / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho no commits today >&2\nexit 1\n")
    hook.chmod(0o755)
    panel.get_by_role("button", name="Commit 1 file").click()
    it.page.locator(".notice.bad", has_text="no commits today").wait_for()
    it.check_clean()


def has_jobs_and_a_terminal_in_the_panel(stage):
    job = {"calls": [{"tool": "shell", "arguments": {"command": "echo begun; sleep 300", "wait_ms": 100}}]}
    server = stage.server("jobs", [job, {"say": "It runs."}])
    it = stage.page(server)
    it.sign_in()
    it.new_session("Begin.")
    it.page.wait_for_function("() => { document.querySelector('.asks .approval .primary')?.click(); return document.querySelectorAll('.entry.text').length; }", polling=50)
    it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
    it.page.get_by_role("tab", name="Jobs").click()
    card = it.page.locator(".panel .job")
    card.locator("summary").click()
    wait_until("its output is there", lambda: "begun" in card.locator(".output").inner_text())
    card.get_by_role("button", name="Stop").click()
    wait_until("it is stopped", lambda: card.get_by_role("button", name="Stop").is_hidden())
    it.page.get_by_role("tab", name="Terminal").click()
    command = it.page.get_by_role("textbox", name="Command")
    command.fill("echo $((6 * 7))")
    command.press("Enter")
    wait_until("the command's output is there", lambda: "42" in it.page.locator(".shell-output").inner_text())
    it.check_clean()


def branches_rewinds_renames_shares_and_exports(stage):
    secret = "sk-ant-0123456789abcdef0123456789abcdef"
    server = stage.server("branch", [{"say": f"First answer, with {secret}."}, {"say": "Second answer."}, {"say": "Third answer."}], env={"ANTHROPIC_API_KEY": secret})
    it = stage.page(server)
    it.sign_in()
    session = it.new_session("First.")
    it.wait_for_end()
    it.say("Second.")
    it.wait_for_end(2)
    menu = lambda name: (it.page.get_by_role("button", name="Session menu").click(), it.page.get_by_role("menuitem", name=name).click())
    menu("Rename…")
    it.page.locator("#prompt-input").fill("A name")
    it.page.locator("dialog").get_by_role("button", name="Rename").click()
    it.page.get_by_role("heading", name="A name").wait_for()
    menu("Share a link…")
    it.page.get_by_role("button", name="Make a link").click()
    address = it.page.locator("dialog code").first.inner_text()
    it.page.locator("dialog").get_by_role("button", name="Close").click()
    other = stage.page(server)
    other.page.goto(address)
    other.page.locator(".entry.text", has_text="Second answer.").wait_for()
    assert other.page.get_by_role("textbox").count() == 0
    other.axe(Path(stage.options.axe).read_text(), "a share")
    other.check_clean()
    with it.page.expect_download() as saved:
        menu("Save as one page…")
    with other.page.expect_download() as shared:
        other.page.get_by_role("button", name="Save as one page").click()
    for file in (saved, shared):
        text = Path(file.value.path()).read_text()
        assert "First answer, with" in text and "Second answer." in text and "<script" not in text and "http-equiv" in text
        assert secret not in text, "a saved page has a secret"
        alone = stage.browser.new_page(java_script_enabled=False, offline=True)
        alone.set_content(text)
        assert alone.get_by_text("Second answer.").is_visible()
        alone.close()
    # The second message is taken back, and is in the field again.
    it.page.locator(".entry.prompt").nth(1).get_by_role("button").click()
    it.page.get_by_role("menuitem", name="Rewind to before this").click()
    it.page.locator(".entry.removed").wait_for()
    wait_until("its words are in the field", lambda: it.page.get_by_role("textbox", name="Message").input_value() == "Second.")
    it.say("Third.")
    it.wait_for_end(2)
    # Before the first message there is nothing to go on from.
    it.page.locator(".entry.prompt").first.get_by_role("button").click()
    it.page.get_by_role("menuitem", name="Branch after this turn").wait_for()
    assert it.page.get_by_role("menuitem", name="Branch before this message").count() == 0
    it.page.keyboard.press("Escape")
    it.page.locator(".entry.prompt").nth(1).get_by_role("button").click()
    it.page.get_by_role("menuitem", name="Branch before this message").click()
    it.page.wait_for_function("(session) => location.hash.startsWith('#/session/') && location.hash !== `#/session/${session}`", arg=session)
    it.check_clean()


PARTS = [
    ends_the_sign_in_of_another_browser, commits_chosen_files_of_the_difference_to_head, has_jobs_and_a_terminal_in_the_panel,
    branches_rewinds_renames_shares_and_exports,
    a_permission_for_the_workspace_holds_for_the_next_session,
    signs_in_by_a_code_that_is_good_once, streams_an_answer_and_shows_its_calls, undoes_a_change_from_its_diff_and_redoes_it,
    two_browsers_approve_at_once_and_one_wins, answers_a_question_by_its_form, uploads_by_button_drop_and_paste,
    shows_the_transcript_byte_for_byte_after_the_server_was_killed_in_mid_stream, shows_the_transcript_byte_for_byte_through_cut_connections,
    shows_the_transcript_after_the_server_was_killed_at_each_kind_of_row, shows_a_command_as_interrupted_that_ended_with_the_server, keeps_little_of_a_long_session_in_the_page,
]


def main():
    parser = argparse.ArgumentParser()
    for name in ("haft", "axe", "room"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--measure", action="store_true", help="print times of the page, and check nothing")
    parser.add_argument("--pictures", metavar="FOLDER", help="draw the pictures of docs/, and check nothing")
    parser.add_argument("--cuts", type=int, default=100, help="connections that are cut")
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args()
    with sync_playwright() as tools:
        browser = launch(tools)
        stages = []

        def begin(part):
            stages[:] = [Stage(tools, browser, options)]
            part(stages[0])

        def failed(part):
            for at, it in enumerate(stages[0].pages):
                it.page.screenshot(path=f"{options.room}/../{part.__name__[:30]}-{at}.png")
                print("  errors of the page:", it.errors[:3], file=sys.stderr)
                # Streams of rows end with their page, or are cut.
                print("  requests that failed:", [one for one in it.broken if "/events" not in one][:3], file=sys.stderr)

        parts = [measure] if options.measure else [draw, draw_agents] if options.pictures else PARTS + kinds.PARTS + agents.PARTS + reach.PARTS + hostile.PARTS
        wanted = [] if options.measure else options.parts
        code = play(parts, wanted, begin, lambda: stages[0].end(), failed)
        browser.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
