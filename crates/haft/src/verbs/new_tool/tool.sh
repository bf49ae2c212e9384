#!/bin/sh
# TOOL_NAME: replace what it says and does by your own. Its test is _test_TOOL_NAME.sh.
set -eu

if [ "${1-}" = --tool ]; then
    # All that a model knows when it decides whether to call it. "touches": [] is for what touches nothing that
    # another call does; without it the tool runs alone.
    cat <<'SPEC'
{
    "name": "TOOL_NAME",
    "description": "Counts the words of a text. Gives the number and the word: `3 words`.",
    "parameters": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The text, in one line."}
        },
        "required": ["text"]
    },
    "touches": []
}
SPEC
    exit 0
fi

# The arguments are one JSON object on standard input. This reads a simple string of it; jq reads everything.
text=$(sed -n 's/.*"text"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p')
count=$(printf '%s' "$text" | wc -w | tr -d ' ')
if [ "$count" -eq 0 ]; then
    # Any other exit code than 0 is a failure; this line is what the model reads of it.
    echo "the text has no words: give 'text' some" >&2
    exit 1
fi
if [ "$count" -eq 1 ]; then echo "1 word"; else echo "$count words"; fi
