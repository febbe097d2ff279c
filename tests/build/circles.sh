#!/bin/sh
# Files call each other in one direction: by the symbols that they define and need, no source file of
# the product reaches itself through others.  A circle that must stay has a line here, "FILE CALLED :
# why": the call that tsort does not see.
set -eu
command -v nm > /dev/null && command -v tsort > /dev/null || { echo "no nm or no tsort: skipped"; exit 77; }
objects=tests/build/objects
[ -s "$objects" ] || { echo "no list $objects of what make built"; exit 99; }
defended=''

# A libtool object names the object file that was compiled.  The name of the library that an object is
# for, and the set of instructions, are no part of the source file's name.
list=$(tr ' ' '\n' < "$objects" | while read -r object; do
    [ -e "$object" ] || { echo "no $object: build first" >&2; exit 99; }
    folder=${object%/*}
    file=$(sed -n "s/^\(non_\)\{0,1\}pic_object='\(.*\)'/\2/p" "$object" | head -n 1)
    echo "$folder/$file"
done)
edges=$(nm -A -P $list | awk -v defended="$defended" '
BEGIN {
    n = split(defended, line, "\n")
    for (i = 1; i <= n; i++) {
        sub(/ *:.*/, "", line[i])
        stays[line[i]]
    }
}
{
    source = $1
    sub(/:$/, "", source)
    sub(/\/\.libs\//, "/", source)
    sub(/\.o$/, "", source)
    sub(/[a-z0-9_]*_la-/, "", source)
    if ($3 == "U")
        needed[source " " $2]
    else if ($3 ~ /^[A-Z]$/)
        home[$2] = source
}
END {
    for (pair in needed) {
        split(pair, part, " ")
        if ((part[2] in home) && home[part[2]] != part[1] && !((part[1] " " home[part[2]]) in stays))
            print part[1], home[part[2]]
    }
}' | sort -u)
count=$(echo "$edges" | wc -l)
[ "$count" -gt 100 ] || { echo "only $count edges found"; exit 99; }
if ! circles=$(echo "$edges" | tsort 2>&1 > /dev/null); then
    echo "$circles"
    exit 1
fi
echo "edges: $count"
