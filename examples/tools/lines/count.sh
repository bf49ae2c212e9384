#!/bin/sh
# The command of tool.toml beside it. The schema lets no quote and no backslash into `dir`, so taking it out is easy.
dir=$(tr -d '\n' | sed -n 's/.*"dir"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p')
dir=${dir:-.}
case $dir in -*) dir=./$dir ;; esac
order=cat
[ "$1" = --sorted ] && order='sort -k1,1rn -k2,2'
find "$dir" -name '.?*' -prune -o -type f -name '*.*' -exec wc -l {} + |
    awk '{ count = $1; $1 = ""; if ($0 == " total") next; sub(/.*\./, ""); lines[$0] += count }
         END { for (end in lines) print lines[end], end }' |
    $order
