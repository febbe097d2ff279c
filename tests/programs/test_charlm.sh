#!/bin/sh
# examples/charlm from its command line: trains a little, saves, goes on, samples, stops at Ctrl-C,
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

begin() { # in the background, until it has begun: ARGUMENT...
    : > "$folder/out" # what the last run printed must not be taken for this one's
    "$charlm" --hidden 8 --seconds 60 --sample 0 "$@" "$text" > "$folder/out" 2>&1 &
    pid=$!
    wait_for grep -q order-0 "$folder/out"
}
wait_for() { # COMMAND...: 30 seconds at most
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "not within 30 seconds: $*"
        sleep 0.1
    done
}

small="--cell gru --layers 2 --hidden 16 --embedding 8 --dropout 0.1 --seed 3"
# $small holds options: unquoted on purpose.
run 0 "saved step 12" $small --steps 12 --sample 30 --save "$folder/one" "$text"
grep -q 'held-out [0-9.]* bits per character (order-0 entropy' "$folder/out" || fail "no held-out bits"
run 0 "saved step 12" $small --steps 12 --sample 30 --save "$folder/two" "$text"
cmp "$folder/one" "$folder/two" || fail "the same seed gave other weights"
run 0 "saved step 12" $small --memory 400K --steps 12 --sample 30 --save "$folder/less" "$text"
run 1 "memory_limit is 1024, must be at least" $small --memory 1K --steps 1 --save '' "$text"
run 0 "saved step 16" --resume "$folder/one" --steps 4 --save "$folder/three" "$text"
cmp -s "$folder/one" "$folder/three" && fail "nothing was learned"

"$charlm" --resume "$folder/three" --steps 0 --sample 50 --device cpu:1 > "$folder/out"
[ "$(wc -c < "$folder/out")" -eq 51 ] || fail "a sample of 50 characters and a line's end"
"$charlm" --resume "$folder/three" --steps 0 --sample 50 --device reference > "$folder/again"
[ "$(wc -c < "$folder/again")" -eq 51 ] || fail "a sample from the reference device"

if command -v python3 > /dev/null; then
    python3 - "$folder/three" << 'END' || fail "python does not read the file"
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + length])
facts = header.pop("__metadata__")
assert length % 8 == 0 and facts["cell"] == "gru" and facts["step"] == "16", facts
assert facts["hidden"] == "16" and facts["layers"] == "2", facts
assert header["rnn.1.fwd.R.q"]["shape"] == [16, 16], header
assert header["embedding.weight"]["shape"] == [len(facts["alphabet"]) // 2, 8], header
assert max(t["data_offsets"][1] for t in header.values()) == len(data) - 8 - length
END
fi

# Ctrl-C ends a long run cleanly, with the weights saved.
begin --save "$folder/stopped"
sleep 0.3
kill -INT $pid
wait $pid || fail "exit $? after Ctrl-C"
grep -q 'saved step' "$folder/out" || fail "nothing saved at Ctrl-C"
run 0 "saved step" --resume "$folder/stopped" --steps 1 --sample 0 --save "$folder/stopped" "$text"

# A user's cell: its text is in the file, so the file alone is enough to go on.
run 0 "two-products" --cell "$source/tests/cells/two-products.cell" --hidden 8 --steps 3 \
    --sample 10 --save "$folder/own" "$text"
run 0 "saved step 4" --resume "$folder/own" --steps 1 --save "$folder/own" "$text"

# Killed at any moment, a run has its last save: whole, and what lay beside it is removed.
begin --save "$folder/killed" --save-every 1
wait_for [ -s "$folder/killed" ]
sleep 0.3
kill -KILL $pid
wait $pid 2> /dev/null || true
touch "$folder/killed.charlm-0123456789abcdef.new" "$folder/killed.1.new"
run 0 "saved step" --resume "$folder/killed" --steps 1 --sample 0 --save "$folder/killed" "$text"
[ "$(cd "$folder" && echo killed*)" = "killed killed.1.new" ] || fail "$(ls "$folder")"

# SIGTERM and SIGHUP save, too, and a reader that is gone: each line it prints is then a signal.
for signal in TERM HUP "PIPE PIPE"; do
    begin --save "$folder/stopped"
    for each in $signal; do kill -$each $pid 2> /dev/null || true; done
    wait $pid || fail "exit $? after SIG$signal"
    grep -q 'saved step' "$folder/out" || fail "nothing saved at SIG$signal"
done

# A save that fails in between ends nothing: here the folder is away for a while.
mkdir "$folder/away"
begin --save "$folder/away/model" --save-every 1
mv "$folder/away" "$folder/elsewhere"
wait_for grep -q 'is not saved: .*training goes on' "$folder/out"
mv "$folder/elsewhere" "$folder/away"
kill -INT $pid
wait $pid || fail "exit $? after a save that failed"
run 0 "saved step" --resume "$folder/away/model" --steps 1 --sample 0 --save "$folder/away/model" "$text"

# Mode and links stay.
chmod 600 "$folder/one"
ln -s one "$folder/link"
run 0 "saved step 13" --resume "$folder/link" --steps 1 --sample 0 --save "$folder/link" "$text"
[ -L "$folder/link" ] || fail "the link is gone"
[ "$(ls -lL "$folder/link" | cut -c 1-10)" = -rw------- ] || fail "the mode is another"

# A changed byte is seen; a file beyond the limit is refused before the first step.
{ head -c 3000 "$folder/one"; printf 'x'; tail -c +3002 "$folder/one"; } > "$folder/changed"
run 1 "it was changed" --resume "$folder/changed" --steps 0
cp "$folder/one" "$folder/kept"
(ulimit -f 8 && run 1 "does not fit: File too large" --resume "$folder/one" --save "$folder/one" "$text") ||
    exit 1
cmp "$folder/one" "$folder/kept" || fail "the old file was not kept"

# What could not be read again is refused before the first step.
printf 'cell mine(h)\n# f\374r Elman\nh'"'"' = tanh(W x + R h + b)\n' > "$folder/latin.cell"
{
    echo "cell wide(h)"
    for k in 0 1 2 3 4 5 6 7; do echo "a$k = tanh(W x + R h + b)"; done
    echo "h' = tanh(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7)"
} > "$folder/wide.cell"
quick="--embedding 1 --steps 1 --device cpu:1 --save $folder/none"
run 1 "latin.cell:2: byte 0xfc, must be text in UTF-8" $quick --cell "$folder/latin.cell" "$text"
run 1 "more than 4096 tensors" $quick --cell "$folder/wide.cell" --hidden 1 --layers 200 "$text"
run 1 "must be at most 2147483648" $quick --hidden 12000 "$text"
grep -q order-0 "$folder/out" && fail "refused after it had begun"

rm -rf "$folder/away" "$folder/kept" "$folder/link"
rm -f "$folder/two" "$folder/three" "$folder/again"
head -c 100 "$folder/one" > "$folder/cut"
printf 'cell c(h)\nh = W x\n' > "$folder/bad.cell"
printf 'too short' > "$folder/short"
ls "$folder" > "$folder.before"
none=--save=$folder/none
run 2 "--hidden is 0, must be 1 to 65536" --hidden 0
run 2 "--hidden is 9x, must be" --hidden=9x
run 2 "--memory is 64X, must be bytes" --memory 64X
run 2 "--memory is 0, must be bytes" --memory 0
run 2 "--dropout is 1, must be 0 to 0.99" --dropout 1
run 2 "--seconds is -1, must be" --seconds -1
run 2 "--seconds needs a value" --seconds
run 2 "unknown option --nonsense" --nonsense
run 2 "behind a file" "$text" --steps 1
run 1 "no built-in cell" "$none" --cell nothing --steps 1 "$text"
run 1 "bad.cell:2:" "$none" --cell "$folder/bad.cell" --steps 1 "$text"
run 1 "abacus" "$none" --device abacus --steps 1 "$text"
run 1 "nowhere: No such file" "$none" --steps 1 "$folder/nowhere"
run 1 "not a regular file" "$none" --steps 1 "$folder"
run 1 "at least 1000 are needed" "$none" --steps 1 "$folder/short"
run 1 "needs --resume" "$none" --steps 0
run 1 "nowhere/model" --save "$folder/nowhere/model" --steps 1 "$text"
run 1 "not a regular file" --save /dev/null --steps 1 "$text"
run 1 "nowhere: No such file" "$none" --resume "$folder/nowhere"
run 1 "the header's length is" "$none" --resume "$text" --steps 1 "$text"
run 1 "must be at most 92" "$none" --resume "$folder/cut" --steps 1 "$text"
run 1 "the resumed file has 16" "$none" --resume "$folder/one" --hidden 17 --steps 1 "$text"
run 1 "the resumed file has gru" "$none" --resume "$folder/one" --cell lstm --steps 1 "$text"
run 0 "Usage: charlm" --help
ls "$folder" | diff "$folder.before" - || fail "a failed run left a file"
echo "charlm: good"
