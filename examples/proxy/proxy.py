"""Checks haft behind Caddy, with the configuration of the documentation: each check is a request that a browser or a program makes."""

import base64
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

NAME, TOKEN = "haft.example.org", "0f9c1e5d7a3b4c2e8d6f0a1b2c3d4e5f"


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Behind:
    """haft and Caddy before it."""

    def __init__(self, haft, room, documentation):
        self.room, self.port, self.direct = room, free_port(), free_port()
        self.base = f"https://{NAME}:{self.port}"
        (room / "tokens").write_text(f"ann approve {TOKEN}\n")
        (room / "tokens").chmod(0o600)
        lines = [{"say": " ".join(f"word{n}" for n in range(100)), "chunks": 30, "chunk_ms": 100}]
        (room / "script").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.haft = subprocess.Popen(
            [haft, "--dir", room / "ws", "serve", "--addr", f"127.0.0.1:{self.direct}", "--public", self.base, "--tokens", room / "tokens", "--model", f"script:{room}/script"],
            stdout=subprocess.PIPE, text=True)
        assert "/#code=" in self.haft.stdout.readline()
        site = re.search(rf"^{NAME} {{\n.*?^}}\n", documentation.read_text(), re.M | re.S)[0]
        site = site.replace(f"{NAME} {{", f"{NAME}:{self.port} {{\n\ttls internal").replace("127.0.0.1:8723", f"127.0.0.1:{self.direct}")
        options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n"
        (room / "Caddyfile").write_text(options + site)
        self.caddy = subprocess.Popen(["caddy", "run", "--config", room / "Caddyfile", "--adapter", "caddyfile"], stdout=open(room / "caddy.log", "w"), stderr=subprocess.STDOUT)
        wait_until("Caddy answers", lambda: self.curl("/healthz", token=None)[1] == "ok\n")

    def command(self, path, *more, token=TOKEN):
        """Returns the curl command for a path, with this token."""
        bearer = ["-H", f"Authorization: Bearer {token}"] if token else []
        return ["curl", "-skN", "-m", "60", "--resolve", f"{NAME}:{self.port}:127.0.0.1", *bearer, *more, self.base + path]

    def curl(self, path, *more, body=None, token=TOKEN):
        """Returns the status and the text of an answer."""
        sent = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
        done = subprocess.run(self.command(path, *sent, *more, "-w", "\n%{http_version} %{http_code}", token=token), capture_output=True, text=True)
        text, _, last = done.stdout.rpartition("\n")
        return int(last.split()[1]), text

    def upgrade(self, headers):
        """Returns a connection that asked to become a WebSocket at /acp, and the first line of the answer."""
        bare = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        it = ssl._create_unverified_context().wrap_socket(bare, server_hostname=NAME)
        key = base64.b64encode(os.urandom(16)).decode()
        it.sendall(f"GET /acp HTTP/1.1\r\nHost: {NAME}:{self.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{headers}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += it.recv(4096)
        return it, head.split(b"\r\n")[0].decode()

    def streams(self):
        return int(re.search(r"^haft_event_streams (\d+)$", self.curl("/metrics")[1], re.M)[1])

    def end(self):
        self.caddy.terminate()
        self.haft.terminate()
        assert self.haft.wait(30) == 0


def wait_until(what, check, seconds=30):
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, f"not so within {seconds} s: {what}"
        time.sleep(0.05)


def signs_in_and_is_known_by_the_cookie(it):
    jar = it.room / "jar"
    status, _ = it.curl("/api/v1/sign-in", "-c", jar, "-H", "X-Haft: 1", body={"token": TOKEN}, token=None)
    assert status == 200
    line = next(line for line in jar.read_text().splitlines() if "haft_" in line)
    assert line.startswith("#HttpOnly_") and line.split("\t")[3] == "TRUE", f"the cookie is not for TLS alone: {line}"
    assert it.curl("/api/v1/sessions", "-b", jar, token=None)[0] == 200
    it.cookie = "Cookie: " + "=".join(line.split("\t")[5:7])
    for path, status in (("/", 200), ("/api/v1/sessions", 401), ("/readyz", 401), ("/metrics", 401)):
        assert it.curl(path, token=None)[0] == status, path
    done = subprocess.run(it.command("/", "-o", "/dev/null", "-w", "%{http_version}"), capture_output=True, text=True)
    assert done.stdout == "2", f"HTTP {done.stdout}"


def events_come_as_they_happen(it):
    it.session = json.loads(it.curl("/api/v1/sessions", body={"prompt": {"text": "go"}})[1])["id"]
    times = []
    with subprocess.Popen(it.command(f"/api/v1/sessions/{it.session}/events?after=0"), stdout=subprocess.PIPE, text=True) as stream:
        for line in stream.stdout:
            if '"event":"text"' in line:
                times.append(time.monotonic())
            if '"turn_ended"' in line:
                break
        stream.kill()
    # The answer takes three seconds; gathered, it would come at once.
    assert len(times) > 10 and times[-1] - times[0] > 1.5, f"{len(times)} pieces in {times[-1] - times[0]:.1f} s"
    print(f"  {len(times)} pieces of an answer, at most {max(b - a for a, b in zip(times, times[1:])) * 1000:.0f} ms apart")


def haft_knows_that_a_client_has_gone(it):
    clients = [subprocess.Popen(it.command("/api/v1/events"), stdout=subprocess.DEVNULL) for _ in range(3)]
    wait_until("three streams", lambda: it.streams() == 3)
    for client in clients:
        client.kill()
        client.wait()
    wait_until("no stream", lambda: it.streams() == 0)


def uploads_come_back_byte_for_byte(it):
    (it.room / "sent").write_bytes(os.urandom(8 << 20))
    status, text = it.curl(f"/api/v1/sessions/{it.session}/uploads", "-F", f"file=@{it.room}/sent")
    assert status == 201, text
    handle = json.loads(text)["uploads"][0]["upload"]
    subprocess.run(it.command(f"/api/v1/sessions/{it.session}/outputs/{handle}", "-o", it.room / "back"), check=True)
    assert (it.room / "back").read_bytes() == (it.room / "sent").read_bytes()


def names_and_origins_of_others_are_refused(it):
    for header, status in ((f"Origin: {it.base}", 200), ("Origin: https://evil.example", 403), (f"Origin: http://{NAME}", 403), ("Sec-Fetch-Site: cross-site", 403)):
        assert it.curl("/api/v1/info", "-H", header)[0] == status, header
    # Caddy has no site of this name, and haft no such name.
    assert "workspaces" not in it.curl("/api/v1/info", "-H", "Host: evil.example")[1]
    direct = subprocess.run(["curl", "-s", "-H", "Host: evil.example", f"http://127.0.0.1:{it.direct}/api/v1/info"], capture_output=True, text=True)
    assert '"denied"' in direct.stdout, direct.stdout


def editors_connect_by_websocket(it):
    for headers, wanted in ((it.cookie + f"\r\nOrigin: {it.base}", "101"), (it.cookie + "\r\nOrigin: https://evil.example", "403"), (it.cookie, "403"), ("X-Nothing: 1", "401")):
        socket, line = it.upgrade(headers)
        socket.close()
        assert wanted in line, f"{headers}: {line}"
    socket, line = it.upgrade(f"Authorization: Bearer {TOKEN}")
    assert "101" in line, line
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}).encode()
    # A masked text frame of less than 64 KiB; the mask may be zeros.
    socket.sendall(b"\x81\xfe" + len(text).to_bytes(2, "big") + bytes(4) + text)
    answer = b""
    while b'"agentCapabilities"' not in answer:
        more = socket.recv(65536)
        assert more, answer
        answer += more
    socket.close()


def programs_use_mcp(it):
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}
    status, text = it.curl("/mcp", "-H", "Accept: application/json, text/event-stream", body=body)
    assert status == 200 and "serverInfo" in text, text


def main():
    haft, room, documentation = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    it = Behind(haft, room, documentation)
    try:
        for check in (signs_in_and_is_known_by_the_cookie, events_come_as_they_happen, haft_knows_that_a_client_has_gone, uploads_come_back_byte_for_byte, names_and_origins_of_others_are_refused, editors_connect_by_websocket, programs_use_mcp):
            check(it)
            print(f"{check.__name__.replace('_', ' ')}: passed", flush=True)
    finally:
        it.end()


if __name__ == "__main__":
    main()
