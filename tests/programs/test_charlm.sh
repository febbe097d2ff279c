#!/bin/sh
# examples/charlm from its command line: trains a little, saves, continues, samples, stops at Ctrl-C,
# takes a user's cell, and refuses wrong arguments and files without leaving anything behind.
set -eu
source=${srcdir:-.}
charlm=${CHARLM:-examples/charlm/charlm}
[ -x "$charlm" ] || { echo "no $charlm: skipped"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder" "$folder.before"' EXIT
text=$source/include/ecornn.h

fail() {
    echo "FAILED: $*"
    [ ! -s "$folder/out" ] || sed 's/^/    /' "$folder/out"
    exit 1
}

# run EXIT WORD ARGUMENT...: the exit status, and a word of what is printed
run() {
    expected=$1 word=$2
    shift 2
    status=0
    "$charlm" "$@" > "$folder/out" 2>&1 || status=$?
    [ $status -eq "$expected" ] || fail "exit $status, expected $expected: charlm $*"
    grep -qF -- "$word" "$folder/out" || fail "no '$word': charlm $*"
}

begin() { # starts charlm in the background and waits until it trains: ARGUMENT...
    : > "$folder/out"
    "$charlm" --hidden 8 --seconds 86400 --sample 0 "$@" "$text" > "$folder/out" 2>&1 &
    pid=$!
    wait_for grep -q order-0 "$folder/out"
}
wait_for() { # COMMAND...: succeeds before charlm ends
    until "$@"; do
        kill -0 $pid 2> /dev/null || fail "charlm ended: $*"
        sleep 0.1
    done
}

small="--cell gru --layers 2 --hidden 16 --embedding 8 --dropout 0.1 --seed 3"
# $small holds options: unquoted on purpose.
run 0 "saved step 12" $small --steps 12 --sample 30 --save "$folder/one" "$text"
grep -q 'held-out [0-9.]* bits per character (order-0 entropy' "$folder/out" || fail "no held-out bits"
run 0 "saved step 12" $small --steps 12 --sample 30 --save "$folder/two" "$text"
cmp "$folder/one" "$folder/two" || fail "the same seed gave other weights"
run 0 "saved step 12" $small --device cpu:1 --memory 400K --steps 12 --sample 30 --save "$folder/less" "$text"
run 1 "memory_limit is 1024, must be at least" $small --device cpu:1 --memory 1K --steps 1 --save '' "$text"
run 0 "saved step 16" --resume "$folder/one" --steps 4 --save "$folder/three" "$text"
cmp -s "$folder/one" "$folder/three" && fail "nothing was learned"

"$charlm" --resume "$folder/three" --steps 0 --sample 50 --device cpu:1 > "$folder/out"
[ "$(wc -c < "$folder/out")" -eq 51 ] || fail "a sample of 50 characters and a line's end"
"$charlm" --resume "$folder/three" --steps 0 --sample 50 --device reference > "$folder/again"
[ "$(wc -c < "$folder/again")" -eq 51 ] || fail "a sample from the reference device"

if command -v python3 > /dev/null; then
    python3 "$source/examples/charlm/to_safetensors.py" "$folder/three" "$folder/three.safetensors"
    python3 - "$folder/three.safetensors" "$folder/three" << 'END' || fail "to_safetensors.py"
import json, struct, sys
data, model = (open(name, "rb").read() for name in sys.argv[1:])
length, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + length])
facts = header.pop("__metadata__")
assert length % 8 == 0 and facts["cell"] == "gru" and facts["step"] == "16", facts
assert header["rnn.1.fwd.R.q"]["shape"] == [16, 16], header
assert header["embedding.weight"]["shape"] == [len(facts["alphabet"]) // 2, 8], header
end = max(t["data_offsets"][1] for t in header.values())
assert end == len(data) - 8 - length and data[-end:] == model[-end:]
END
    rm "$folder/three.safetensors"
fi

# Ctrl-C, SIGTERM, SIGHUP (unless nohup ignores it) and a reader that is gone end a long run cleanly, with
# the weights saved.
for signal in INT TERM "PIPE PIPE" $(sh -c 'kill -HUP $$' 2> /dev/null || echo HUP); do
    begin --save "$folder/stopped"
    for each in $signal; do kill -$each $pid 2> /dev/null || true; done
    wait $pid || fail "exit $? after SIG$signal"
    grep -q 'saved step' "$folder/out" || fail "nothing saved at SIG$signal"
done
run 0 "saved step" --resume "$folder/stopped" --steps 1 --sample 0 --save "$folder/stopped" "$text"

# A user's cell: its text is in the file, so the file alone is enough to go on.
run 0 "two-products" --cell "$source/tests/cells/two-products.cell" --hidden 8 --steps 3 \
    --sample 10 --save "$folder/own" "$text"
run 0 "saved step 4" --resume "$folder/own" --steps 1 --save "$folder/own" "$text"
run 0 "ugrnn" --cell ugrnn --hidden 8 --steps 3 --sample 10 --save "$folder/named" "$text"
run 0 "saved step 4" --resume "$folder/named" --steps 1 --save "$folder/named" "$text"

# A run that is killed leaves its last save whole.
begin --save "$folder/killed" --save-every 1
wait_for [ -s "$folder/killed" ]
kill -KILL $pid
wait $pid 2> /dev/null || true
run 0 "saved step" --resume "$folder/killed" --steps 1 --sample 0 --save "$folder/killed" "$text"
rm -f "$folder"/killed.*

# A save that fails in between does not end the training: here the folder is away for a while.
mkdir "$folder/away"
begin --save "$folder/away/model" --save-every 1
mv "$folder/away" "$folder/elsewhere"
wait_for grep -q 'is not saved: .*training goes on' "$folder/out"
mv "$folder/elsewhere" "$folder/away"
kill -INT $pid
wait $pid || fail "exit $? after a save that failed"
run 0 "saved step" --resume "$folder/away/model" --steps 1 --sample 0 --save "$folder/away/model" "$text"

# Mode and links stay.  A file beyond the limit is refused before the first step.
chmod 600 "$folder/one"
ln -s one "$folder/link"
run 0 "saved step 13" --resume "$folder/link" --steps 1 --sample 0 --save "$folder/link" "$text"
[ -L "$folder/link" ] || fail "the link is gone"
[ "$(ls -lL "$folder/link" | cut -c 1-10)" = -rw------- ] || fail "the mode is another"
cp "$folder/one" "$folder/kept"
(ulimit -f 8 && run 1 "File too large" --resume "$folder/one" --save "$folder/one" "$text") || exit 1
grep -q order-0 "$folder/out" && fail "refused after it had begun"
cmp "$folder/one" "$folder/kept" || fail "the old file was not kept"

# Files that are cut or changed anywhere in their head are refused.
head=$(grep -abo '^end$' "$folder/one" | head -n 1 | cut -d: -f1)
size=$(wc -c < "$folder/one")
none=--save=$folder/none
for bytes in 0 1 10 50 100 200 "$head" $((head + 4)) $((size - 1)); do
    head -c "$bytes" "$folder/one" > "$folder/cut"
    run 1 charlm: "$none" --resume "$folder/cut" --steps 0
done
at=0
while [ $at -lt $((head + 3)) ]; do
    { head -c $at "$folder/one"; printf '\377'; tail -c +$((at + 2)) "$folder/one"; } > "$folder/cut"
    run 1 charlm: "$none" --resume "$folder/cut" --steps 0
    at=$((at + 37))
done
{ head -c $((size - 4)) "$folder/one"; printf '\377\377\377\377'; } > "$folder/cut"
run 1 "must be finite" "$none" --resume "$folder/cut" --steps 0

rm -rf "$folder/away" "$folder/kept" "$folder/link"
rm -f "$folder/two" "$folder/three" "$folder/again"
printf 'cell c(h)\nh = W x\n' > "$folder/bad.cell"
printf 'too short' > "$folder/short"
ls "$folder" > "$folder.before"
run 2 "--hidden is 0, must be whole, 1 to 65536" --hidden 0
run 2 "--hidden is 9x, must be" --hidden=9x
run 2 "--hidden is 9.5, must be" --hidden=9.5
run 2 "--memory is 64X, must be" --memory 64X
run 2 "--memory is 0, must be" --memory 0
run 2 "--dropout is 1, must be 0 to 0.99" --dropout 1
run 2 "--seconds is -1, must be" --seconds -1
run 2 "requires an argument" --seconds
run 2 "unrecognized option" --nonsense
run 2 "name the files" --steps 1
run 2 "needs --resume" --steps 0
run 1 "nothing: No such file" "$none" --cell nothing --steps 1 "$text"
run 1 "bad.cell:2:" "$none" --cell "$folder/bad.cell" --steps 1 "$text"
run 1 "abacus" "$none" --device abacus --steps 1 "$text"
run 1 "nowhere: No such file" "$none" --steps 1 "$folder/nowhere"
run 1 "not a regular file" "$none" --steps 1 "$folder"
run 1 "at least 1000 are needed" "$none" --steps 1 "$folder/short"
run 1 "nowhere/model cannot be written" --save "$folder/nowhere/model" --steps 1 "$text"
run 1 "/dev/null cannot be written" --save /dev/null --steps 1 "$text"
run 1 "nowhere: No such file" "$none" --resume "$folder/nowhere"
run 1 "not a model of charlm" "$none" --resume "$text" --steps 1 "$text"
run 1 "the resumed file has 16" "$none" --resume "$folder/one" --hidden 17 --steps 1 "$text"
run 1 "the resumed file has gru" "$none" --resume "$folder/one" --cell lstm --steps 1 "$text"
run 0 "Usage: charlm" --help
ls "$folder" | diff "$folder.before" - || fail "a failed run left a file"
echo "charlm: good"
