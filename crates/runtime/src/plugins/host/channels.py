"""Channels between agents, as KohakuTerrarium's tools know them: `kohakuterrarium.core.channel`.

Those of a session and of its group are rows that haft keeps, so each message is on the disk when `send` returns, and
survives the process. A channel that a file makes itself, without a registry, lives in its process alone.
"""


def terrarium_channel():
    from abc import ABC, abstractmethod
    from collections import deque
    from dataclasses import dataclass, field
    from datetime import datetime
    from typing import Any, Dict, List, Optional, Union

    # How often a receiver looks, in seconds: at first, and after some time.
    SOON, LATE = 0.01, 0.2

    def new_id():
        from os import urandom

        return "msg_" + urandom(6).hex()

    @dataclass
    class ChannelMessage:
        """A message, with the name of its sender for people and the sender's id."""

        sender: str
        content: Union[str, Dict[str, Any], List[Dict[str, Any]]]
        metadata: Dict[str, Any] = field(default_factory=dict)
        timestamp: datetime = field(default_factory=datetime.now)
        message_id: str = field(default_factory=new_id)
        reply_to: Optional[str] = None
        channel: Optional[str] = None
        sender_id: Optional[str] = None

    def message_of(known):
        given = dict(known)
        given["timestamp"] = datetime.fromtimestamp(given.pop("at_ms") / 1000)
        return ChannelMessage(**given)

    async def awaited(look, timeout):
        import asyncio

        async def found():
            pause = SOON
            while True:
                message = look()
                if message is not None:
                    return message
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LATE)

        return await (found() if timeout is None else asyncio.wait_for(found(), timeout))

    class Memory:
        """The messages of a channel that only this process has."""

        def __init__(self, maxsize=0):
            self.maxsize, self.queue, self.sent, self.readers = maxsize, deque(), deque(maxlen=200), {}

        def send(self, channel, message):
            if isinstance(channel, SubAgentChannel):
                if self.maxsize and len(self.queue) >= self.maxsize:
                    return None
                self.queue.append(message)
            for reader, queue in self.readers.items():
                if reader != message.sender:
                    queue.append(message)
            self.sent.append(message)
            return message.message_id

        def receive(self, channel, reader):
            queue = self.queue if reader is None else self.readers.get(reader, ())
            return queue.popleft() if queue else None

        def subscribe(self, channel, reader, end):
            if end:
                self.readers.pop(reader, None)
            else:
                self.readers.setdefault(reader, deque())

        def history(self, channel):
            return list(self.sent)

        def waiting(self, channel):
            return len(self.queue) + sum(len(it) for it in self.readers.values())

    class Kept:
        """The messages of a channel that haft keeps."""

        def __init__(self, call, shared):
            self.call, self.shared = call, shared

        def request(self, action, **given):
            return ask(self.call, "channel", request=dict(given, do=action, shared=self.shared))

        def send(self, channel, message):
            return self.request(
                "send",
                name=channel.name,
                sender=str(message.sender),
                content=message.content,
                metadata=message.metadata or {},
                reply_to=message.reply_to,
            )

        def receive(self, channel, reader):
            known = self.request("receive", name=channel.name, reader=reader)
            return None if known is None else message_of(known)

        def subscribe(self, channel, reader, end):
            self.request("subscribe", name=channel.name, reader=reader, end=end)

        def history(self, channel):
            return [message_of(it) for it in self.request("history", name=channel.name)]

        def waiting(self, channel):
            known = [it for it in self.request("list") if it["name"] == channel.name]
            return known[0]["qsize"] if known else 0

    class BaseChannel(ABC):
        """What queues and broadcasts have in common."""

        def __init__(self, name, description="", max_history=200, kept=None, maxsize=0):
            self.name, self.description, self.maxsize = name, description, maxsize
            self._kept, self._on_send_callbacks = kept or Memory(maxsize), []

        @property
        @abstractmethod
        def channel_type(self):
            ...

        @property
        def history(self):
            return self._kept.history(self)

        @property
        def qsize(self):
            return self._kept.waiting(self)

        @property
        def empty(self):
            return self.qsize == 0

        def on_send(self, callback):
            self._on_send_callbacks.append(callback)

        def remove_on_send(self, callback):
            self._on_send_callbacks = [it for it in self._on_send_callbacks if it is not callback]

        async def send(self, message):
            """Returns once the message is delivered. A queue that is full is waited for."""
            message.channel = self.name
            for callback in self._on_send_callbacks:
                try:
                    callback(self.name, message)
                except Exception as error:
                    STDERR.write("[WARNING] on_send callback error: %s\n" % error)
            message.message_id = await awaited(lambda: self._kept.send(self, message), None)

    class SubAgentChannel(BaseChannel):
        """A queue: each message goes to exactly one receiver."""

        def __init__(self, name, maxsize=0, description="", kept=None):
            super().__init__(name, description, kept=kept, maxsize=maxsize)

        @property
        def channel_type(self):
            return "queue"

        async def receive(self, timeout=None):
            return await awaited(self.try_receive, timeout)

        def try_receive(self):
            return self._kept.receive(self, None)

    class ChannelSubscription:
        """A subscriber's view of a broadcast."""

        def __init__(self, channel, subscriber_id):
            self._channel, self.subscriber_id = channel, subscriber_id

        async def receive(self, timeout=None):
            return await awaited(self.try_receive, timeout)

        def try_receive(self):
            return self._channel._kept.receive(self._channel, self.subscriber_id)

        def unsubscribe(self):
            self._channel.unsubscribe(self.subscriber_id)

    class AgentChannel(BaseChannel):
        """A broadcast: each subscriber but the sender gets every message."""

        def __init__(self, name, description="", kept=None):
            super().__init__(name, description, kept=kept)
            self._subscribers = set()

        @property
        def channel_type(self):
            return "broadcast"

        def subscribe(self, subscriber_id):
            self._kept.subscribe(self, subscriber_id, False)
            self._subscribers.add(subscriber_id)
            return ChannelSubscription(self, subscriber_id)

        def unsubscribe(self, subscriber_id):
            self._kept.subscribe(self, subscriber_id, True)
            self._subscribers.discard(subscriber_id)

        @property
        def subscriber_count(self):
            return len(self._subscribers)

    class ChannelRegistry:
        """Channels by name: those of a call's session or group, or of this process."""

        def __init__(self, call=None, shared=False):
            self._kept = None if call is None else Kept(call, shared)
            self._channels = {}

        def _of(self, known):
            name = known["name"]
            channel = self._channels.get(name)
            if channel is None or channel.channel_type != known["type"]:
                given = {"description": known["description"], "kept": self._kept}
                if known["type"] == "broadcast":
                    channel = AgentChannel(name, **given)
                else:
                    channel = SubAgentChannel(name, known["maxsize"], **given)
                self._channels[name] = channel
            return channel

        def get_or_create(self, name, channel_type="queue", maxsize=0, description=""):
            if self._kept is not None:
                given = {"name": name, "kind": channel_type, "capacity": maxsize, "description": description}
                return self._of(self._kept.request("create", **given))
            if name not in self._channels:
                if channel_type == "broadcast":
                    self._channels[name] = AgentChannel(name, description)
                else:
                    self._channels[name] = SubAgentChannel(name, maxsize, description)
            return self._channels[name]

        def _all(self):
            if self._kept is not None:
                return [self._of(it) for it in self._kept.request("list")]
            return list(self._channels.values())

        def get(self, name):
            return next((it for it in self._all() if it.name == name), None)

        def list_channels(self):
            return [it.name for it in self._all()]

        def get_channel_info(self):
            return [{"name": it.name, "type": it.channel_type, "description": it.description} for it in self._all()]

        def remove(self, name):
            known = self._channels.pop(name, None) is not None
            return known if self._kept is None else self._kept.request("remove", name=name)

    return {
        "AgentChannel": AgentChannel,
        "BaseChannel": BaseChannel,
        "Channel": SubAgentChannel,
        "ChannelMessage": ChannelMessage,
        "ChannelRegistry": ChannelRegistry,
        "ChannelSubscription": ChannelSubscription,
        "SubAgentChannel": SubAgentChannel,
    }


class TerrariumEnvironment:
    """What the agents of one group have in common, as a call reaches it."""

    def __init__(self, call):
        self._call = call
        self._channels = None

    @property
    def env_id(self):
        return ask(self._call, "channel", request={"do": "environment"})

    @property
    def shared_channels(self):
        if self._channels is None:
            self._channels = channel_registry(self._call, True)
        return self._channels

    def register(self, key, value):
        """Sets shared state. It is kept as JSON."""
        ask(self._call, "channel", request={"do": "register", "key": str(key), "value": value})

    def get(self, key, default=None):
        value = ask(self._call, "channel", request={"do": "get", "key": str(key)})
        return default if value is None else value


def channel_registry(call, shared):
    module = __import__("kohakuterrarium.core.channel", fromlist=["x"])
    return module.ChannelRegistry(call, shared)
