"""What haft's views promise to hosts of MCP Apps, shown in Chromium."""

import argparse
import json
import struct
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent / "page"))
from parts import play  # noqa: E402

ONE = "ui://haft/"
# Those that run: a part that fails leaves none.
HOSTS = []


class Host:
    """A host with a page in the browser."""

    def __init__(self, options, browser, folder, announces=True):
        self.options, self.folder = options, Path(folder)
        HOSTS.append(self)
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["node", options.host, options.haft, str(self.folder), f"{options.work}/page.bundle.mjs", "yes" if announces else "no", "http" if options.http else "stdio"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        where = json.loads(self.process.stdout.readline())
        self.views = where["views"]
        self.page = browser.new_page(viewport={"width": 820, "height": 700})
        self.page.set_default_timeout(15_000)
        self.errors, self.foreign = [], []
        self.page.on("pageerror", lambda it: self.errors.append(str(it)))
        self.page.on("console", lambda it: self.errors.append(it.text) if it.type == "error" else None)
        self.page.on("request", lambda it: self.foreign.append(it.url) if not it.url.startswith((where["page"], self.views, "data:")) else None)
        self.page.goto(where["page"])
        self.page.wait_for_function("() => window.show")

    def show(self, tool, arguments, **options):
        made = self.page.evaluate("([views, tool, args, options]) => show(views, tool, args, options)", [self.views, tool, arguments, options])
        return made, self.page.frame_locator("iframe")

    def log(self):
        return self.page.evaluate("log")

    def rpc(self, method, params):
        return self.page.evaluate("([method, params]) => rpc(method, params)", [method, params])

    def check(self, name):
        """No error of the page, the view or the bridge; nothing from elsewhere; no violation of axe in the view."""
        assert not self.errors and not self.foreign and not self.log()["errors"], (self.errors, self.foreign, self.log())
        frame = self.page.frames[1]
        source = Path(self.options.axe).read_text()
        frame.evaluate(source)
        found = frame.evaluate("axe.run(document, {resultTypes: ['violations']}).then((it) => it.violations.map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 120))]))")
        assert not found, f"axe on {name}: {found}"
        if self.options.pictures:
            for width, height in ((1440, 900), (768, 1024), (360, 740)):
                for scheme in ("light", "dark"):
                    self.page.set_viewport_size({"width": width, "height": height})
                    self.page.emulate_media(color_scheme=scheme)
                    self.page.evaluate("(theme) => bridge.sendHostContextChange({ theme })", scheme)
                    self.page.wait_for_timeout(200)
                    self.page.screenshot(path=Path(self.options.pictures) / f"app-{name}-{width}-{scheme}.png")

    def end(self):
        HOSTS.remove(self)
        self.page.close()
        self.process.terminate()
        self.process.wait()


def until(what, check, seconds=15):
    end = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < end, f"not so within {seconds} s: {what}"
        time.sleep(0.05)
    return value


def offers_views_only_to_hosts_that_announce_them(options, browser):
    host = Host(options, browser, f"{options.room}/work/offers")
    offered = host.page.evaluate("offered()")
    assert [it["uri"] for it in offered["views"]] == [f"{ONE}diff", f"{ONE}jobs", f"{ONE}part"], offered
    assert all(it["isRight"] and it["meta"] == {"csp": {}, "prefersBorder": True} for it in offered["read"]), offered
    linked = {name: uri for name, uri, _ in offered["linked"]}
    assert linked["edit"] == linked["write"] == f"{ONE}diff" and linked["shell_status"] == f"{ONE}jobs" and linked["render_3d"] == f"{ONE}part", linked
    # Tools that only the views call are kept from the model.
    assert set(offered["forViews"]) == {"undo", "jobs", "stop_task", "share_file"}, offered["forViews"]
    print("  views:", {it["uri"]: it["bytes"] for it in offered["read"]}, "tools:", linked, flush=True)
    host.end()
    plain = Host(options, browser, f"{options.room}/work/plain", announces=False)
    offered = plain.page.evaluate("offered()")
    assert offered == {"views": [], "read": [], "linked": [], "forViews": []}, offered
    answer = plain.page.evaluate("rpc('resources/read', {uri: 'ui://haft/diff'}).then(() => 'read', (it) => it.message)")
    assert answer != "read", "a view was given to a client that announced none"
    (plain.folder / "a.txt").write_text("one\n")
    result = plain.rpc("tools/call", {"name": "write", "arguments": {"path": "b.txt", "content": "x\n"}})
    assert "_meta" not in result, result
    plain.end()


def undoes_and_redoes_a_call_from_its_diff(options, browser):
    host = Host(options, browser, f"{options.room}/work/diff")
    file = host.folder / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    host.rpc("tools/call", {"name": "read", "arguments": {"path": "a.txt"}})
    made, view = host.show("edit", {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]})
    assert made["view"]["name"] == "haft", made
    assert view.locator(".l.plus .code").inner_text() == "2" and view.locator(".l.minus .code").inner_text() == "two"
    assert file.read_text() == "one\n2\nthree\n"
    until("the view says its size", lambda: host.log()["sizes"])
    host.check("diff")
    view.get_by_role("button", name="Undo").click()
    until("the file is as before", lambda: file.read_text() == "one\ntwo\nthree\n")
    view.get_by_role("button", name="Undo the undo").click()
    until("the undo is undone", lambda: file.read_text() == "one\n2\nthree\n")
    assert [it["name"] for it in host.log()["calls"]] == ["undo", "undo"], host.log()
    assert host.page.evaluate("bridge.teardownResource({}).then((it) => Object.keys(it).length)") == 0
    # A host that lets views call no tools has no button.
    _, view = host.show("write", {"path": "b.txt", "content": "new\n"}, tools=False)
    view.locator(".l.plus").wait_for()
    assert view.get_by_role("button", name="Undo").count() == 0
    # What a model wrote is shown, and never run.
    _, view = host.show("write", {"path": "<img src=x onerror=top.ran=1>.html", "content": "</script><script>parent.ran = 1</script>\n<img src=x onerror=top.ran=1>\n"})
    view.locator(".l.plus").first.wait_for()
    assert view.locator("img").count() == 0 and not host.page.evaluate("window.ran")
    host.end()


def shows_jobs_and_stops_one(options, browser):
    host = Host(options, browser, f"{options.room}/work/jobs")
    begun = host.rpc("tools/call", {"name": "shell", "arguments": {"command": "echo begun; sleep 300", "wait_ms": 100}})
    assert not begun.get("isError"), begun
    _, view = host.show("shell_status", {"action": "list"})
    job = view.locator(".job")
    job.locator("summary").click()
    until("its output is there", lambda: "begun" in job.locator(".output").inner_text())
    host.check("jobs")
    # It is asked for again while it runs, and what was opened stays open.
    until("the board is drawn anew", lambda: any(it["name"] == "jobs" for it in host.log()["calls"]))
    assert job.locator(".output").is_visible()
    job.get_by_role("button", name="Stop").click()
    until("it is stopped", lambda: job.get_by_role("button", name="Stop").count() == 0)
    assert "running" not in host.rpc("tools/call", {"name": "jobs", "arguments": {}})["content"][0]["text"]
    host.end()


def shows_a_part_in_3d(options, browser):
    host = Host(options, browser, f"{options.room}/work/part")
    (host.folder / "box.stl").write_bytes(tetrahedron())
    made, view = host.show("render_3d", {"path": "box.stl"})
    canvas = view.locator("canvas")
    canvas.wait_for()
    assert "4 triangles" in canvas.get_attribute("aria-label"), canvas.get_attribute("aria-label")
    assert [it["name"] for it in host.log()["calls"]] == ["share_file"] and host.log()["reads"][0].startswith("haft://files/")
    host.check("part")
    # A failure is shown by its text.
    _, view = host.show("render_3d", {"path": "none.stl"})
    until("the failure is shown", lambda: "none.stl" in view.locator(".output").inner_text())
    host.end()


def tetrahedron():
    corners = [(0, 0, 0), (10, 0, 0), (0, 10, 0), (0, 0, 10)]
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    body = b"".join(struct.pack("<12fH", 0, 0, 0, *(it for at in face for it in corners[at]), 0) for face in faces)
    return b"\0" * 80 + struct.pack("<I", len(faces)) + body


PARTS = [offers_views_only_to_hosts_that_announce_them, undoes_and_redoes_a_call_from_its_diff, shows_jobs_and_stops_one, shows_a_part_in_3d]


def main():
    parser = argparse.ArgumentParser()
    for name in ("haft", "work", "host", "axe", "room"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--pictures", metavar="FOLDER")
    parser.add_argument("--http", action="store_true", help="connect to `/mcp` of `haft serve`, and not to `haft mcp`")
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args()
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"])
        code = play(PARTS, options.parts, lambda part: part(options, browser), lambda: [it.end() for it in list(HOSTS)])
        browser.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
