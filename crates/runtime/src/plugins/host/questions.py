"""What may a tool ask haft for while its call runs?

    {"op": "question", "id", "number", "question": {"what": …}}
        → {"op": "answer", "number", "value", "error"}

A tool waits for its answer. On the main thread, which reads the socket, it is read there; what else comes meanwhile is
served afterwards. Any other thread is given it by the main thread.
"""

from _collections_abc import MutableMapping
from _queue import Empty, SimpleQueue
from _thread import get_ident

# How long a thread waits for an answer that the main thread has to read, which a tool may block.
MOST_SECONDS = 30


class Questions:
    """What was asked and is not answered yet."""

    main = get_ident()
    lock = allocate_lock()
    last = 0
    # Where the answers go, by the numbers of the questions.
    waiting = {}
    # The messages that came while the main thread waited for an answer.
    later = []


def ask(call, what, wait=MOST_SECONDS, **given):
    """What haft answers to a question of a call. Raises RuntimeError with haft's words for why there is no answer."""
    answer = SimpleQueue()
    with Questions.lock:
        Questions.last += 1
        number = Questions.last
    Questions.waiting[number] = answer
    try:
        # What a tool keeps from one call to the next asks for the call that runs now.
        running = call.id if call.id in Serving.running else next(iter(list(Serving.running)), call.id)
        send({"op": "question", "id": running, "number": number, "question": dict(given, what=what)})
        said = read_answer(answer) if get_ident() == Questions.main else answer.get(timeout=wait)
    except Empty:
        raise RuntimeError("haft has not answered: another thread of the tool blocks its process") from None
    except Unfit as error:
        raise ValueError(readable(error)) from None
    finally:
        Questions.waiting.pop(number, None)
    if said.get("error"):
        raise RuntimeError(said["error"])
    return said.get("value")


def read_answer(answer):
    """Reads the socket on the main thread until the answer is there."""
    while answer.empty():
        for message in received():
            if not answered(message):
                Questions.later.append(message)
    if Questions.later and Serving.loop is not None:
        Serving.loop.call_soon(serve_all, ())
    return answer.get()


def answered(message):
    """Whether a message is the answer to a question: then who asked has it."""
    if message["op"] != "answer":
        return False
    waiting = Questions.waiting.get(message["number"])
    if waiting is not None:
        waiting.put(message)
    return True


class Scratchpad(MutableMapping):
    """The session's scratchpad, which haft keeps: all tool files and the built-in tool have the same.

    It holds text. A value of another type is kept as JSON, and the file that put it there gets it back as it was.
    """

    # By session and key: a text, and the value that it stands for.
    values_of_texts = {}

    def __init__(self, call):
        self.call = call

    def __getitem__(self, key):
        text = ask(self.call, "scratchpad_get", key=str(key))
        if text is None:
            raise KeyError(key)
        known = self.values_of_texts.get((self.call.session, str(key)))
        return known[1] if known is not None and known[0] == text else text

    def __setitem__(self, key, value):
        text = value if isinstance(value, str) else encode(value)
        ask(self.call, "scratchpad_set", key=str(key), value=text)
        if text is not value:
            self.values_of_texts[self.call.session, str(key)] = (text, value)

    def __delitem__(self, key):
        if not ask(self.call, "scratchpad_delete", key=str(key)):
            raise KeyError(key)

    def __iter__(self):
        return iter(ask(self.call, "scratchpad_keys"))

    def __len__(self):
        return len(ask(self.call, "scratchpad_keys"))

    def __repr__(self):
        return "Scratchpad(keys=%r)" % self.list_keys()

    def set(self, key, value):
        self[key] = value

    def delete(self, key):
        return ask(self.call, "scratchpad_delete", key=str(key))

    def list_keys(self, include_reserved=False):
        reserved = lambda it: it.startswith("__") and it.endswith("__")
        return [it for it in self if include_reserved or not reserved(it)]

    def clear(self):
        for key in self:
            self.delete(key)

    def to_dict(self):
        return {key: self[key] for key in self.list_keys()}

    def to_prompt_section(self):
        lines = ["### %s\n%s\n" % it if "\n" in str(it[1]) else "- **%s**: %s" % it for it in self.to_dict().items()]
        return "\n".join(["## Working Memory\n"] + lines) if lines else ""
