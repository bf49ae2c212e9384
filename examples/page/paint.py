"""Measures the page in Chromium by the browser's own clock: first paint, the list of sessions, a session of 10,000 events. Prints rows of Markdown."""

import http.server
import threading

ROUNDS = 15
EVENTS = 10_000
# Answers of one turn: haft ends a turn after 50.
STEPS = 45

# Notes when something is first on the screen, in milliseconds since the navigation began.
NOTES = """
window.notes = {};
const look = () => {
    if (document.querySelector('nav[aria-label="Sessions"] a')) notes.list ??= performance.now();
    const texts = document.querySelectorAll('.entry.text');
    if (texts[texts.length - 1]?.textContent.includes('The end of all.')) notes.end ??= performance.now();
    if (!notes.list || !notes.end) requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


def quantiles(all):
    all = sorted(all)
    return f"{all[len(all) // 2]:.0f} ms, {all[-1]:.0f} ms"


def ratio(all, floor):
    return f"{sorted(all)[len(all) // 2] / sorted(floor)[len(floor) // 2]:.2f}"


def paint(page):
    """Returns when the page's first content was painted, as the browser says it."""
    page.page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
    return page.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")


class Almost(http.server.BaseHTTPRequestHandler):
    """Serves an almost empty page: no other is painted sooner on this machine."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"<!doctype html><html lang=en><title>a</title><link rel=icon href=data:,><p>haft"
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def almost_empty(stage):
    """Starts the server of the almost empty page and returns its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Almost)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stage.ends.append(server.shutdown)
    return f"http://127.0.0.1:{server.server_port}/"


def paint_of(stage, server, address):
    """Returns when an address was painted in a new context, and after a reload."""
    page = stage.page(server)
    page.page.goto(address)
    first = paint(page)
    page.page.reload()
    again = paint(page)
    page.context.close()
    stage.pages.remove(page)
    return first, again


def fill(it):
    """Makes a session of so many events, and returns its id, its number of events and that of the rows that are left of them."""
    session = it.api("POST", "sessions", {})["body"]["id"]
    path, head = f"sessions/{session}", 0
    while head < EVENTS:
        it.api("POST", f"{path}/prompt", {"text": "Go on."})
        ends = 0
        while not ends:
            it.page.wait_for_timeout(100)
            new = it.api("GET", f"{path}/rows?after={head}&limit=20000")["body"]
            ends = sum(row["event"]["event"] == "turn_ended" for row in new["rows"])
        head = new["head"]
    rows = it.api("GET", f"{path}/rows?limit=20000")["body"]
    return session, rows["head"], len(rows["rows"])


def measure(stage):
    steps = [{"say": f"Step {n}. " + "some *words* of it " * 8, "calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]} for n in range(STEPS)]
    turns = EVENTS // (STEPS * 4)
    server = stage.server("paint", [*[line for _ in range(turns) for line in (*steps, {"say": "The end of all."})]], {"a.txt": "one\n"})
    it = stage.page(server)
    it.sign_in()
    # `run --measure first` measures the first paint alone.
    if "first" in stage.options.parts:
        session, events, rows = None, 0, 0
        # The list of sessions is not empty.
        it.new_session("Go on.")
    else:
        session, events, rows = fill(it)
    state = it.context.storage_state()
    measured = {"paint": [], "list": [], "end": [], "again": [], "floor": [], "floor again": []}
    empty = almost_empty(stage)
    for _ in range(ROUNDS):
        first, again = paint_of(stage, server, empty)
        measured["floor"].append(first)
        measured["floor again"].append(again)
        for where in ("", f"#/session/{session}") if session else ("",):
            page = stage.page(server, storage_state=state)
            page.context.add_init_script(NOTES)
            page.page.goto(f"{server.base}/{where}")
            page.page.wait_for_function("() => notes.end" if where else "() => notes.list")
            notes = page.page.evaluate("notes")
            if where:
                measured["end"].append(notes["end"])
            else:
                measured["paint"].append(paint(page))
                measured["list"].append(notes["list"])
                page.page.reload()
                page.page.wait_for_function("() => notes.list")
                measured["again"].append(paint(page))
            page.check_clean()
            page.context.close()
            stage.pages.remove(page)
    print(f"| the page in Chromium, {ROUNDS} times, without a cache | median, longest |\n|---|---|")
    print(f"| first contentful paint of an almost empty page | {quantiles(measured['floor'])} |")
    print(f"| the same after a reload | {quantiles(measured['floor again'])} |")
    print(f"| first contentful paint | {quantiles(measured['paint'])} |")
    print(f"| the same after a reload | {quantiles(measured['again'])} |")
    print(f"| the list of sessions is there | {quantiles(measured['list'])} |")
    print(f"| first paint over that of the almost empty page, medians | {ratio(measured['paint'], measured['floor'])}, after a reload {ratio(measured['again'], measured['floor again'])} |")
    if session:
        print(f"| the end of a session of {events} events, in {rows} rows, is there | {quantiles(measured['end'])} |")
