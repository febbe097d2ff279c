#!/bin/sh
# examples/charlm from its command line: trains a little, saves, goes on, samples, stops at Ctrl-C,
# takes a user's cell, and refuses wrong arguments and files without leaving anything behind.
set -eu
source=${srcdir:-.}
charlm=${CHARLM:-examples/charlm}
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

small="--cell gru --layers 2 --hidden 16 --embedding 8 --dropout 0.1 --seed 3"
# $small holds options: unquoted on purpose.
run 0 "saved step 12" $small --steps 12 --sample 30 --save "$folder/one" "$text"
grep -q 'held-out [0-9.]* bits per character (order-0 entropy' "$folder/out" || fail "no held-out bits"
run 0 "saved step 12" $small --steps 12 --sample 30 --save "$folder/two" "$text"
cmp "$folder/one" "$folder/two" || fail "the same seed gave other weights"
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
"$charlm" --hidden 8 --seconds 60 --save "$folder/stopped" "$text" > "$folder/out" 2>&1 &
pid=$!
tries=0
until grep -q order-0 "$folder/out"; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail "it did not begin"
    sleep 0.1
done
sleep 0.3
kill -INT $pid
wait $pid || fail "exit $? after Ctrl-C"
grep -q 'saved step' "$folder/out" || fail "nothing saved at Ctrl-C"
run 0 "saved step" --resume "$folder/stopped" --steps 1 --sample 0 --save "$folder/stopped" "$text"

# A user's cell: its text is in the file, so the file alone is enough to go on.
run 0 "two-products" --cell "$source/tests/cells/two-products.cell" --hidden 8 --steps 3 \
    --sample 10 --save "$folder/own" "$text"
run 0 "saved step 4" --resume "$folder/own" --steps 1 --save "$folder/own" "$text"

rm -f "$folder/two" "$folder/three" "$folder/again"
head -c 100 "$folder/one" > "$folder/cut"
printf 'cell c(h)\nh = W x\n' > "$folder/bad.cell"
printf 'too short' > "$folder/short"
ls "$folder" > "$folder.before"
none=--save=$folder/none
run 2 "--hidden is 0, must be 1 to 65536" --hidden 0
run 2 "--hidden is 9x, must be" --hidden=9x
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
