#!/bin/sh
# Does TOOL_NAME do what it says? Run: sh .haft/tools/_test_TOOL_NAME.sh
set -eu
tool=$(dirname "$0")/TOOL_NAME.sh

is() {
    if [ "$1" != "$2" ]; then
        echo "expected: $2" >&2
        echo "got:      $1" >&2
        exit 1
    fi
}

is "$(echo '{"text": "one two three"}' | "$tool")" "3 words"
is "$(echo '{"text": "one"}' | "$tool")" "1 word"
if echo '{"text": " "}' | "$tool" 2>/dev/null; then
    echo "no words should be a failure" >&2
    exit 1
fi
"$tool" --tool | grep -q '"name": "TOOL_NAME"'
echo ok
