#!/bin/sh
# How much room a folder takes. A tool in plain sh, which needs neither jq nor Python.
#
# Its one argument is a text. `text` below takes it out of the JSON, with the escapes \" \\ \/ \n and \t undone; what has
# other escapes (\uXXXX) is refused, not guessed. A tool with more than that to read is better written in a language
# that reads JSON.

if [ "$1" = --tool ]; then
    cat <<'SPEC'
{
  "name": "disk",
  "description": "Say how much room a folder takes on the disk, and which of the folders in it take most.",
  "parameters": {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "The folder, relative to the workspace. Default: all of it."}},
    "additionalProperties": false
  },
  "touches": ["read {path}"]
}
SPEC
    exit
fi

# The text that follows "$1": in the JSON object on standard input.
text() {
    tr -d '\n' | sed -n "s/.*\"$1\"[[:space:]]*:[[:space:]]*\"\\(\\([^\"\\\\]\\|\\\\.\\)*\\)\".*/\\1/p"
}

found=$(text path)
case $found in
*\\u*)
    echo '{"error": "the path has an escape that this tool does not read: give it as it is"}'
    exit 1
    ;;
esac
# printf undoes what JSON and it write alike; a percent sign means nothing to %b.
path=$(printf '%b' "$(printf '%s' "$found" | sed 's/\\"/"/g; s/\\\//\//g')")
path=${path:-.}

if [ ! -d "$path" ]; then
    printf 'there is no folder %s\n' "$path" >&2
    exit 2
fi
# What begins with a dash is a folder, too.
case $path in -*) path=./$path ;; esac
du -k -d 1 -- "$path" | sort -rn | head -n 10 | while read -r kilobytes folder; do
    printf '%s KB  %s\n' "$kilobytes" "$folder"
done
