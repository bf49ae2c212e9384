"""TOOL_NAME: replace what it says and does by your own. Its test is _test_TOOL_NAME.py."""

name = "TOOL_NAME"
# All that a model knows when it decides whether to call it.
description = "Counts the words of a text. Gives the number and the word: `3 words`."
parameters = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The text."},
    },
    "required": ["text"],
}
# Nothing that another call touches, so calls run side by side. Without this line the tool runs alone.
# Others: "read {path}", "write {path}", "net example.org".
touches = []


async def execute(params):
    count = len(params["text"].split())
    if count == 0:
        # The last line of the traceback is what the model reads first.
        raise ValueError("the text has no words: give `text` some")
    return f"{count} word" if count == 1 else f"{count} words"
