"""Notes that outlive the conversation. A tool in navi's format: four definitions in a module."""

import json
import os
from pathlib import Path

# The data lies beside the tool, so it is there for every workspace that has this folder of tools.
STORE = Path(__file__).with_name("notes.json")

name = "notes"
description = "Keep short notes from one conversation to the next: add one, list them, find those with a word, remove one."
parameters = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["add", "list", "find", "remove"]},
        "text": {"type": "string", "description": "The note to add, or the word to find."},
        "number": {"type": "integer", "minimum": 1, "description": "The note to remove, by the number that `list` shows."},
    },
    "required": ["action"],
}
# Calls that use the notes wait for each other.
touches = ["session notes"]


def load():
    return json.loads(STORE.read_text("utf-8")) if STORE.exists() else []


def save(notes):
    # Nobody ever finds half a file there.
    new = STORE.with_suffix(".new")
    new.write_text(json.dumps(notes, ensure_ascii=False, indent=1) + "\n", "utf-8")
    os.replace(new, STORE)


def shown(numbered):
    return "\n".join(f"{number}. {note}" for number, note in numbered) or "no notes"


async def execute(args):
    notes = load()
    numbered = list(enumerate(notes, 1))
    action, text = args["action"], args.get("text", "").strip()
    if action == "list":
        return shown(numbered)
    if action in ("add", "find") and not text:
        raise ValueError(f"`{action}` needs `text`")
    if action == "find":
        return shown((number, note) for number, note in numbered if text.lower() in note.lower())
    if action == "add":
        save([*notes, text])
        return f"note {len(notes) + 1} is kept"
    number = args.get("number")
    if number is None or number > len(notes):
        raise ValueError(f"`remove` needs the `number` of a note; there are {len(notes)}")
    gone = notes.pop(number - 1)
    save(notes)
    return f"removed: {gone}"
