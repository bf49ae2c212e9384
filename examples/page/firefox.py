"""Starts and kills `haft serve` for `firefox.mjs`, which drives Firefox."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from driver import Server


class Servers:
    """The servers of the part that runs, by name."""

    def __init__(self, haft, room):
        self.haft, self.room, self.running = haft, Path(room), {}

    def answer(self, request):
        match request:
            case {"serve": name, "script": script}:
                it = self.running[name] = Server(self.haft, self.room / name, script, request.get("files", {}))
                return {"address": it.address, "folder": str(it.folder)}
            case {"kill": name}:
                self.running[name].kill()
            case {"start": name}:
                self.running[name].start()
            case {"stop": _}:
                for it in self.running.values():
                    it.stop()
                self.running.clear()
        return {}


def main():
    parser = argparse.ArgumentParser()
    for name in ("haft", "tools", "room"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args()
    servers = Servers(options.haft, options.room)
    script = Path(__file__).with_name("firefox.mjs")
    node = subprocess.Popen(["node", str(script), options.tools, options.room, *options.parts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        for line in node.stdout:
            request = json.loads(line)
            if "say" in request:
                print(request["say"], flush=True)
                continue
            print(json.dumps(servers.answer(request)), file=node.stdin, flush=True)
        return node.wait()
    finally:
        servers.answer({"stop": True})
        node.kill()


if __name__ == "__main__":
    sys.exit(main())
