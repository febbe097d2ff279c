#!/bin/sh
# bench/bench: both opponents compute what the library computes, the table is whole, and wrong
# arguments are refused.  Measures nothing.
set -eu
bench=${BENCH:-bench/bench}
[ -x "$bench" ] || { echo "no $bench: skipped"; exit 77; }
source=${srcdir:-.}

fail() {
    echo "FAILED: $*"
    exit 1
}

# refuse WORD ARGUMENT...
refuse() {
    word=$1
    shift
    ! printed=$("$bench" --seconds 0 "$@" 2>&1) || fail "exit 0: bench $*"
    case $printed in
    *"$word"*) ;;
    *) fail "no '$word' in '$printed': bench $*" ;;
    esac
}

for whom in unfused naive; do
    for cell in lstm gru rnn-tanh rnn-relu; do
        table=$("$bench" --seconds 0 --threads 1,2 --csv --versus $whom \
            $cell/train/T5/N3/I7/H11 $cell/infer/T4/N1/I16/H8) || fail "$cell against $whom"
        [ "$(echo "$table" | wc -l)" -eq 5 ] || fail "$cell: a head and four rows: $table"
        [ "$(echo "$table" | awk -F, '{ print NF }' | sort -u)" = 33 ] || fail "columns: $table"
    done
done
# Where bench was built with oneDNN: its cells, both directions, several layers in one primitive and
# in several.
if "$bench" --help | grep -q '^ *onednn: '; then
    for problem in lstm/train/bi/T5/N3/I7/H11 lstm/train/L2/bi/T4/N2/I6/H5 lstm/infer/L2/T4/N1/I16/H16 \
        gru/train/rev/T5/N3/I7/H11 gru/infer/T4/N1/I16/H8 gru-reset-first/train/T5/N3/I7/H11 \
        rnn-tanh/train/L2/T5/N3/I7/H11 lstm/infer/L2/T1/N1/I6/H5 rnn-relu/train/T5/N3/I7/H11; do
        "$bench" --seconds 0 --threads 1,2 --versus onednn $problem > /dev/null ||
            fail "$problem against oneDNN"
    done
    refuse "oneDNN does" --versus onednn mgu/T1/N1/I1/H1
else
    refuse "--versus is onednn" --versus onednn lstm/T1/N1/I1/H1
fi
"$bench" --seconds 0 --shapes "$source/bench/shapes.txt" --threads 1 \
    mgu/train/f64/L2/bi/T4/N3/I5/H6/lengths:uniform > /dev/null || fail "lengths"
"$bench" --seconds 0 --threads 1 gru/T1/N1/I5/H6 | grep -q "99th percentile" || fail "single calls"
"$bench" --seconds 0 --cell "$source/tests/cells/two-products.cell" --threads 1 \
    two-products/infer/T4/N3/I5/H6 > /dev/null || fail "a user's cell"
"$bench" --seconds 0 --cell "$source/tests/cells/two-products.cell" --threads 1 lstm/infer/T4/N3/I5/H6 > /dev/null 2>&1 &&
    fail "a user's cell under another name"

[ "$("$bench" --seconds 0 --threads 1 --isa sse2 --markdown lstm/T2/N1/I3/H4 |
    awk -F'|' '{ print NF }' | sort -u)" = 14 ] || fail "columns of --markdown"

refuse "--isa is mmx" --isa mmx lstm/T1/N1/I1/H1
refuse "unknown option --nonsense" --nonsense
refuse "--versus is nobody" --versus nobody lstm/T1/N1/I1/H1
refuse "--threads is 0" --threads 0 lstm/T1/N1/I1/H1
refuse "--threads is 1,x" --threads 1,x lstm/T1/N1/I1/H1
refuse "no problem"
refuse "lstm/T1" lstm/T1/N1/I1
refuse "--versus does" --versus unfused lstm/L2/T1/N1/I1/H1
refuse "--versus does" --versus naive mgu/T1/N1/I1/H1
refuse "there is no list [nothing]" --shapes "$source/bench/shapes.txt" @nothing
refuse "$bench/shapes" --shapes "$bench/shapes" @quick
if command -v python3 > /dev/null; then
    python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$source/bench/python/peers.py" ||
        fail "bench/python/peers.py"
fi
echo "bench: good"
