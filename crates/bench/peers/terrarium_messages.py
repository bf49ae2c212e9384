"""How long does a message take in KohakuTerrarium: to the start of the receiver's turn, and through a broadcast?

Two creatures of one engine share a channel; the receiver's model is a script that notes when it is called. Then 1,000 messages
go through a broadcast channel that ten tasks read. Prints, in seconds: p50 and p99 of the first, the whole of the second, and
the version. Nothing is written to the disk here: channels live in memory. With `idle N`, N creatures do nothing until the
input ends.
"""

import asyncio
import logging
import os
import sys
import tempfile
import time
from importlib.metadata import version

os.environ["HOME"] = tempfile.mkdtemp()
os.chdir(os.environ["HOME"])

from kohakuterrarium.core.channel import AgentChannel, ChannelMessage
from kohakuterrarium.core.config import AgentConfig
from kohakuterrarium.core.config_types import InputConfig
from kohakuterrarium.terrarium.engine import Terrarium
from kohakuterrarium.testing.llm import ScriptedLLM

IDLE = sys.argv[1] == "idle"
TURNS, MESSAGES, READERS = (0, 0, 0) if IDLE else map(int, sys.argv[1:4])


class Stamped(ScriptedLLM):
    def __init__(self):
        super().__init__(["ok"] * 100_000)
        self.at, self.began = 0.0, asyncio.Event()

    async def chat(self, *args, **named):
        self.at = time.perf_counter()
        self.began.set()
        async for it in super().chat(*args, **named):
            yield it


async def turns():
    engine, models, took = Terrarium(), {}, []
    for name in ("alice", "bob"):
        models[name] = Stamped()
        config = AgentConfig(name=name, system_prompt="x", input=InputConfig(type="none"))
        await engine.add_creature(config, llm=models[name], creature_id=name, io="headless")
    connected = await engine.connect("alice", "bob", channel="tasks")
    bob = engine.get_creature("bob")
    channel = engine.channel(connected.graph_id, "tasks")
    for at in range(TURNS):
        models["bob"].began.clear()
        sent = time.perf_counter()
        await channel.send(ChannelMessage(sender="alice", sender_id="alice", content="message %d" % at))
        await asyncio.wait_for(models["bob"].began.wait(), 10)
        took.append(models["bob"].at - sent)
        while bob.agent.is_processing:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
    await engine.shutdown()
    took.sort()
    return took[len(took) // 2], took[min(len(took) * 99 // 100, len(took) - 1)]


async def broadcast():
    channel = AgentChannel("news")
    subscriptions = [channel.subscribe("reader %d" % at) for at in range(READERS)]

    async def read(subscription):
        for _ in range(MESSAGES):
            await subscription.receive()

    readers = [asyncio.create_task(read(it)) for it in subscriptions]
    began = time.perf_counter()
    for at in range(MESSAGES):
        await channel.send(ChannelMessage(sender="alice", content="message %d" % at))
    await asyncio.gather(*readers)
    return time.perf_counter() - began


async def idle(count):
    engine = Terrarium()
    for at in range(count):
        name = "agent%d" % at
        config = AgentConfig(name=name, system_prompt="x", input=InputConfig(type="none"))
        await engine.add_creature(config, llm=ScriptedLLM(["ok"]), creature_id=name, io="headless")
    await asyncio.sleep(1)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    os._exit(0)


async def main():
    if IDLE:
        await idle(int(sys.argv[2]))
    half, most = await turns()
    print(half, most, await broadcast(), version("kohakuterrarium"))


logging.disable(logging.CRITICAL)
asyncio.run(main())
