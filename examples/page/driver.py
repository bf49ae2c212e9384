"""haft serve as a process, a proxy that cuts its connections, and a browser that looks at its page."""

import json
import os
import random
import re
import selectors
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Server:
    """One `haft serve` in a workspace, with a model that reads its answers from a script."""

    def __init__(self, haft, folder, script, files=None, sandbox="full", config=None, env=None):
        self.haft, self.folder, self.port, self.sandbox = haft, Path(folder), free_port(), sandbox
        # State of its own: sign-ins and links of other parts would count here. And a folder of configuration with these files.
        self.env = {**os.environ, "HAFT_STATE_DIR": f"{folder}.state", **({"HAFT_CONFIG_DIR": f"{folder}.config"} if config else {}), **(env or {})}
        for name, text in (config or {}).items():
            place = Path(f"{folder}.config") / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in (files or {}).items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        self.script = self.folder.with_suffix(".script")
        self.script.write_text("".join(json.dumps(line) + "\n" for line in script))
        self.process = None
        self.start()

    def start(self):
        """Starts the server and reads the address that it prints."""
        command = [self.haft, "--dir", str(self.folder), "--sandbox", self.sandbox, "serve", "--addr", f"127.0.0.1:{self.port}", "--model", f"script:{self.script}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env)
        said = []
        for line in self.process.stdout:
            said.append(line)
            found = re.search(r"http://\S+#code=\S+", line)
            if found:
                self.address = found[0]
                return
        raise AssertionError(f"haft serve printed no address: {''.join(said)}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def base(self):
        return f"http://127.0.0.1:{self.port}"


class Cutter:
    """Passes the bytes of connections on to a server, and cuts streams of a session's rows after a random number of them.

    Half of the cuts end the connection, the others reset it. `left` is how many it still makes.
    """

    FEWEST, MOST = 1, 6_000
    # A stream on which little comes is cut after so many seconds.
    LONGEST = 0.4

    def __init__(self, server, cuts, seed):
        self.server, self.left, self.done, self.random = server, cuts, 0, random.Random(seed)
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        with client, socket.create_connection(("127.0.0.1", self.server.port)) as server, selectors.DefaultSelector() as both:
            both.register(client, selectors.EVENT_READ, server)
            both.register(server, selectors.EVENT_READ, client)
            budget, until = None, None
            while True:
                for key, _ in both.select(0.05):
                    data = self.read(key.fileobj)
                    if not data:
                        return
                    if key.fileobj is client and re.match(rb"GET /api/v1/sessions/[^/ ]+/events", data):
                        with self.lock:
                            if self.left > 0:
                                self.left -= 1
                                budget, until = self.random.randint(self.FEWEST, self.MOST), time.monotonic() + self.LONGEST
                    if key.fileobj is server and budget is not None:
                        data = data[:budget]
                        budget -= len(data)
                    try:
                        key.data.sendall(data)
                    except OSError:
                        return
                if budget == 0 or until is not None and time.monotonic() > until:
                    with self.lock:
                        self.done += 1
                        resets = self.random.random() < 0.5
                    if resets:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return

    @staticmethod
    def read(it):
        try:
            return it.recv(65536)
        except OSError:
            return b""

    def close(self):
        self.listener.close()


class Page:
    """The page in one browser context, with all that the browser complains about."""

    def __init__(self, browser, server, **options):
        self.server = server
        self.context = browser.new_context(viewport={"width": 1440, "height": 900}, **options)
        self.context.set_default_timeout(15_000)
        self.context.add_init_script("window.refused = []; addEventListener('securitypolicyviolation', (it) => refused.push(`${it.violatedDirective} ${it.blockedURI} ${it.sample}`));")
        self.page = self.context.new_page()
        self.errors, self.foreign, self.dialogs, self.broken = [], [], [], []
        self.page.on("pageerror", lambda it: self.errors.append(str(it)))
        self.page.on("requestfailed", lambda it: self.broken.append(f"{it.url}: {it.failure}"))
        self.page.on("dialog", lambda it: (self.dialogs.append(it.message), it.dismiss()))
        self.page.on("request", lambda it: self.foreign.append(it.url) if not it.url.startswith((server.base, "blob:", "data:")) else None)

    def sign_in(self):
        self.page.goto(self.server.address)
        self.page.get_by_role("navigation", name="Sessions").wait_for()

    def go(self, where):
        self.page.evaluate("(it) => { location.hash = it }", f"#/{where}")

    def say(self, words):
        self.page.get_by_role("textbox", name="Message").fill(words)
        self.page.get_by_role("textbox", name="Message").press("Enter")

    def new_session(self, words):
        """Begins a session by the page, and returns its id."""
        self.go("new")
        self.page.get_by_role("heading", name="New session").wait_for()
        self.say(words)
        self.page.wait_for_url("**/#/session/*")
        return self.page.evaluate("location.hash").split("/")[2]

    def api(self, method, path, body=None):
        """Calls the API as the page would, with its cookie."""
        return self.page.evaluate(
            """async ([method, path, body]) => {
                const answer = await fetch('/api/v1/' + path, { method, headers: { 'X-Haft': '1', ...(body === null ? {} : { 'Content-Type': 'application/json' }) }, body: body === null ? undefined : JSON.stringify(body) });
                return { status: answer.status, body: answer.status === 204 ? null : await answer.json() };
            }""",
            [method, path, body],
        )

    def wait_for_end(self, turns=1):
        """Waits until so many turns have ended on the screen."""
        self.page.wait_for_function("(n) => document.querySelectorAll('.entry.end').length >= n", arg=turns)

    def check_clean(self):
        assert not self.errors, self.errors
        assert not self.foreign, self.foreign
        assert not self.dialogs, self.dialogs
        refused = self.page.evaluate("window.refused")
        assert not refused, refused

    def axe(self, source, name):
        """Fails on any violation that axe finds."""
        # As a content script of the browser: the page's own policy lets no text run.
        client = self.context.new_cdp_session(self.page)
        world = client.send("Page.createIsolatedWorld", {"frameId": client.send("Page.getFrameTree")["frameTree"]["frame"]["id"], "grantUniveralAccess": True})
        where = {"contextId": world["executionContextId"]}
        client.send("Runtime.evaluate", {"expression": source, **where})
        found = client.send("Runtime.evaluate", {"expression": "axe.run(document, {resultTypes: ['violations']}).then((it) => JSON.stringify(it.violations.map((one) => [one.id, one.help, one.nodes.slice(0, 5).map((node) => node.target.join(' ') + ' ' + node.failureSummary)])))", "awaitPromise": True, **where})
        violations = json.loads(found["result"]["value"])
        client.detach()
        assert not violations, f"axe on {name}: {json.dumps(violations, indent=1)}"


class Stage:
    """What a part needs: servers and browsers, ended with it."""

    def __init__(self, tools, browser, options):
        self.tools, self.browser, self.options = tools, browser, options
        self.servers, self.pages, self.ends = [], [], []

    def server(self, name, script, files=None, **options):
        it = Server(self.options.haft, Path(self.options.room) / name, script, files, **options)
        self.servers.append(it)
        return it

    def page(self, server, browser=None, **options):
        it = Page(browser or self.browser, server, **options)
        self.pages.append(it)
        return it

    def launch(self, *arguments):
        """Starts another browser, with these arguments."""
        it = launch(self.tools, *arguments)
        self.ends.append(it.close)
        return it

    def end(self):
        for it in self.pages:
            it.context.close()
        for it in self.servers:
            it.stop()
        for end in self.ends:
            end()
        self.servers, self.pages, self.ends = [], [], []


def launch(tools, *arguments):
    return tools.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", *arguments])


def wait_until(what, check, seconds=15):
    until = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < until, f"not so within {seconds} s: {what}"
        time.sleep(0.05)
    return value
