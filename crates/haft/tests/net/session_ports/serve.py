"""A web server of a session: what is asked for says how it answers. It writes each request to `asked`, and `ready` once it listens."""

import http.server
import socket
import sys

host, port = sys.argv[1], int(sys.argv[2])

PAGE = b"""<!doctype html><title>Dev</title><p>of the session</p><p id=p></p>
<script>fetch('/data').then(it => it.text()).then(it => p.textContent = 'script got ' + it)</script>"""


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with open("asked", "a") as asked:
            asked.write(f"{self.command} {self.path} {self.headers['Host']}\n")
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        to = self.path.split("?", 1)[-1]
        if self.path.startswith("/302?"):
            self.say(302, b"", ("Location", to))
        elif self.path.startswith("/links?"):
            self.say(200, f"<title>L</title><p>see <a href='{to}'>this</a>".encode(), ("Content-Type", "text/html"))
        elif self.path == "/data":
            self.say(200, b"data of the session", ("Content-Type", "text/plain"))
        elif sent:
            self.say(200, b"got " + sent, ("Content-Type", "text/plain"))
        else:
            self.say(200, PAGE, ("Content-Type", "text/html"))

    do_POST = do_GET

    def say(self, status, body, header):
        self.send_response(status)
        self.send_header(*header)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in host else socket.AF_INET


with Server((host, port), Answer) as server:
    open("ready", "w").close()
    server.serve_forever()
