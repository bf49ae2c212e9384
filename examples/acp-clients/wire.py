"""A client of an ACP agent at the level of lines: sends requests, answers the agent's own, and keeps every line."""

import json
import queue
import subprocess
import threading
import time


class Agent:
    """A running agent. `answers` maps a method of ours to a function of its params; without one it is refused."""

    def __init__(self, command, answers=None, **popen):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen
        )
        self.answers = answers or {}
        self.lines = []  # what the agent wrote, in order
        self.updates = queue.Queue()
        self.requests = []  # what it asked for
        self.cancelled = []  # the ids that it took back
        self.stderr = []
        self._waiting = {}
        self._lock = threading.Lock()
        self._next = 0
        self._ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def _read_errors(self):
        for line in self.process.stderr:
            self.stderr.append(line.decode(errors="replace"))

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if "method" not in message:
                with self._lock:
                    waiting = self._waiting.pop(message.get("id"), None)
                if waiting is not None:
                    waiting.put((time.monotonic(), message))
            elif "id" in message:
                self.requests.append(message)
                threading.Thread(target=self._answer, args=(message,), daemon=True).start()
            elif message["method"] == "session/update":
                self.updates.put(message["params"])
            elif message["method"] == "$/cancel_request":
                self.cancelled.append(message["params"]["requestId"])
        self._ended.set()
        with self._lock:
            for waiting in self._waiting.values():
                waiting.put((time.monotonic(), {"error": {"code": 0, "message": "the agent has ended"}}))

    def _answer(self, message):
        answer = self.answers.get(message["method"])
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if answer is None:
            reply["error"] = {"code": -32601, "message": "this client does not do that"}
        else:
            result = answer(message["params"])
            if result is None:
                return  # left open
            reply["result"] = result
        self.send(reply)

    def send_line(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else line.encode())
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def send(self, message):
        self.send_line(json.dumps(message))

    def notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method, params, id=None):
        """Sends a request; gives what its answer comes in."""
        if id is None:
            self._next += 1
            id = self._next
        waiting = queue.Queue()
        with self._lock:
            self._waiting[id] = waiting
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return waiting

    def ask(self, method, params, within=60):
        """The answer to a request, as the whole message."""
        return self.begin(method, params).get(timeout=within)[1]

    def result(self, method, params, within=60):
        message = self.ask(method, params, within)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def seen(self):
        """The updates since the last look."""
        seen = []
        while not self.updates.empty():
            seen.append(self.updates.get())
        return seen

    def end(self, within=2):
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            return self.process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None


HELLO = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}


def permission(kind):
    """Chooses the first option of this kind."""

    def answer(params):
        for option in params["options"]:
            if option["kind"] == kind:
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        return {"outcome": {"outcome": "cancelled"}}

    return answer
