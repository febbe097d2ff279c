#!/bin/sh
# ecornn bench: the opponents compute what ecornn computes, the table is whole, and wrong arguments
# are refused.  It measures nothing.
set -eu
bench=${BENCH:-bench/ecornn}
[ -x "$bench" ] || { echo "no $bench: skipped"; exit 77; }
source=${srcdir:-.}

fail() {
    echo "FAILED: $*"
    exit 1
}

bench() {
    "$bench" bench --seconds 0.000001 "$@" 2> /dev/null
}

# refuse WORD ARGUMENT...
refuse() {
    word=$1
    shift
    ! printed=$("$bench" bench --seconds 0.000001 "$@" 2>&1) || fail "exit 0: bench $*"
    case $printed in
    *"$word"*) ;;
    *) fail "no '$word' in '$printed': bench $*" ;;
    esac
}

threads=1,2 rows=4 # each day, more threads with one cell
for cell in lstm gru rnn-tanh rnn-relu; do
    table=$(bench --threads $threads --csv - --versus loop $cell/train/T5/N3/I7/H11 $cell/infer/T4/N1/I16/H8) ||
        fail "$cell against a loop"
    [ "$(echo "$table" | wc -l)" -eq $((1 + rows)) ] || fail "$cell: a head and $rows rows: $table"
    [ "$(echo "$table" | awk -F, '{ print NF }' | sort -u)" = 34 ] || fail "columns: $table"
    [ "${ECORNN_TESTS-}" = all ] || threads=1 rows=2
done
# oneDNN, if bench was built with it: its cells, both directions, several layers in one primitive and
# in several.
if "$bench" bench --versus nobody x/T1 2>&1 | grep -q '^ *onednn: '; then
    for problem in lstm/train/bi/T5/N3/I7/H11 lstm/train/L2/bi/T4/N2/I6/H5 lstm/infer/L2/T4/N1/I16/H16 \
        gru/train/rev/T5/N3/I7/H11 gru/infer/T4/N1/I16/H8 gru-reset-first/train/T5/N3/I7/H11 \
        rnn-tanh/train/L2/T5/N3/I7/H11 lstm/infer/L2/T1/N1/I6/H5 rnn-relu/train/T5/N3/I7/H11; do
        bench --threads 1,2 --versus onednn $problem > /dev/null || fail "$problem against oneDNN"
    done
    refuse "onednn supports" --threads 1 --versus onednn mgu/T1/N1/I1/H1
else
    refuse "--versus is onednn" --versus onednn lstm/T1/N1/I1/H1
fi
lists=$(mktemp -d "${TMPDIR:-/tmp}/lists.XXXXXX")
printf '[few]\nlstm/T2/N1/I2/H3\ngru/T2/N1/I2/H3/save:states\n' > "$lists/few"
lines=$(bench --shapes "$lists/few" --threads 1 @few/f64/train) || fail "@few/f64/train"
echo "$lines" | grep -q "^gru/f64/train/T2/N1/I2/H3/save:states " || fail "@few/f64/train: $lines"
bench --threads 1 mgu/train/f64/L2/bi/T4/N3/I5/H6/lengths:uniform lstm/train/T4/N3/I5/H6/models:3 > /dev/null ||
    fail "lengths, models"
bench --threads 1 gru/T1/N1/I5/H6 | grep -q "99th percentile" || fail "single calls"
bench --threads 1 --versus loop lstm/T3/N1/I5/H6 gru/T3/N1/I5/H6 | grep -q "^f32 .* mean of 2" || fail "means"

refuse "--versus is nobody" --versus nobody lstm/T1/N1/I1/H1
refuse "--threads is 0" --threads 0 lstm/T1/N1/I1/H1
refuse "--threads is 1,x" --threads 1,x lstm/T1/N1/I1/H1
refuse "does not go with --device" --threads 1 --device cpu lstm/T1/N1/I1/H1
refuse "lstm/T1" --threads 1 lstm/T1/N1/I1
refuse "loop supports" --threads 1 --versus loop lstm/L2/T1/N1/I1/H1
refuse "loop supports" --threads 1 --versus loop mgu/T1/N1/I1/H1
refuse "there is no list [nothing]" --shapes "$source/bench/shapes.txt" @nothing
refuse "$bench/shapes" --shapes "$bench/shapes" @quick
if command -v python3 > /dev/null; then
    (cd "$source/bench" && python3 -c 'import ast, sys; [ast.parse(open(one).read(), one) for one in sys.argv[1:]]' \
        versus/peers.py claims.py two_builds.py python/layers.py python/attention.py) || fail "scripts of bench"
    refuse "ort " --threads 1 --versus ort lstm/train/T1/N1/I1/H1
    echo import x > "$lists/numpy.py" && PYTHONPATH=$lists refuse "needs numpy" --threads 1 --versus ort gru/T1/N1/I1/H1
fi
rm -r "$lists"
echo "bench: good"
