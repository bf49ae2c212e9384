"""The Python SDK's client (PyPI agent-client-protocol) drives an agent: new, prompt with calls, permission, load after a
restart, fork, cancel.

    python_client.py COMMAND...
"""

import asyncio
import os
import sys
import tempfile
import time

from acp import connect_to_agent, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse


class Client:
    def __init__(self):
        self.updates, self.asked = [], []

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((session_id, tool_call, options))
        once = next(it for it in options if it.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=once.option_id))

    async def session_update(self, session_id, update, **_):
        self.updates.append((session_id, update))

    def kinds(self):
        return [update.session_update for _, update in self.updates]

    def on_connect(self, conn):
        pass


class Started:
    def __init__(self, command):
        self.command = command

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24
        )
        self.client = Client()
        self.agent = connect_to_agent(
            self.client, self.process.stdin, self.process.stdout, use_unstable_protocol=True
        )
        self.hello = await self.agent.initialize(protocol_version=1)
        return self

    async def __aexit__(self, *_):
        await self.agent.close()
        self.process.terminate()
        await self.process.wait()


async def main(command):
    with tempfile.TemporaryDirectory() as cwd:
        path = os.path.join(cwd, "a.txt")
        with open(path, "w") as file:
            file.write("one\ntwo\n")
        async with Started(command) as it:
            assert it.hello.protocol_version == 1
            session = (await it.agent.new_session(cwd=cwd, mcp_servers=[])).session_id
            turn = await it.agent.prompt(session_id=session, prompt=[text_block("change two to 2")])
            assert turn.stop_reason == "end_turn", turn
            assert it.client.asked and it.client.asked[0][0] == session, "no permission was asked"
            kinds = it.client.kinds()
            assert "tool_call" in kinds and "agent_message_chunk" in kinds, kinds
            assert open(path).read() == "one\n2\n"
            diffs = [
                content
                for _, update in it.client.updates
                if update.session_update == "tool_call_update"
                for content in update.content or []
                if content.type == "diff"
            ]
            assert diffs[0].old_text == "one\ntwo\n" and diffs[0].new_text == "one\n2\n", diffs
        async with Started(command) as it:
            await it.agent.load_session(session_id=session, cwd=cwd, mcp_servers=[])
            kinds = it.client.kinds()
            assert kinds[0] == "user_message_chunk" and "tool_call" in kinds, kinds
            turn = await it.agent.prompt(session_id=session, prompt=[text_block("are you there?")])
            assert turn.stop_reason == "end_turn", turn
            fork = (await it.agent.fork_session(session_id=session, cwd=cwd, mcp_servers=[])).session_id
            assert fork != session
            waiting = asyncio.create_task(it.agent.prompt(session_id=fork, prompt=[text_block("slowly")]))
            await asyncio.sleep(0.5)
            began = time.monotonic()
            await it.agent.cancel(session_id=fork)
            turn = await waiting
            took = (time.monotonic() - began) * 1000
            assert turn.stop_reason == "cancelled", turn
            assert took < 200, f"{took:.0f} ms"
            print(f"python sdk: new, prompt, permission, diff, load, fork; cancel in {took:.0f} ms")


asyncio.run(main(sys.argv[1:]))
