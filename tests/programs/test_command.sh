#!/bin/sh
# The command ecornn: every subcommand, on small problems; JSON is JSON; what is wrong is refused; the
# manual page and the completion know every command and option.
set -eu
ecornn=${ECORNN:-tools/ecornn/ecornn}
[ -x "$ecornn" ] || { echo "no $ecornn: skipped"; exit 77; }
case $ecornn in /*) ;; *) ecornn=$PWD/$ecornn ;; esac
source=$(cd "${srcdir:-.}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ecornn-command.XXXXXX")
trap 'rm -rf "$work"' EXIT
ECORNN_WISDOM=0 XDG_CONFIG_HOME=$work
export ECORNN_WISDOM XDG_CONFIG_HOME
python=$(command -v python3) || echo "skipped: whether JSON is so, there is no python3"

fail() { echo "FAILED: $*" && exit 1; }
# refuse STATUS WORD ARGUMENT...
refuse() {
    status=$1 word=$2
    shift 2
    found=0
    printed=$("$ecornn" "$@" 2>&1) || found=$?
    [ $found = $status ] || fail "exit $found, not $status: ecornn $*: $printed"
    case $printed in
    *"$word"*) ;;
    *) fail "no '$word' in '$printed': ecornn $*" ;;
    esac
}
# has WORD ARGUMENT...: succeeds, and says that
has() { refuse 0 "$@"; }
# json EXPRESSION ARGUMENT...: of the parsed output x; one Python looks at all of them in the end
json() {
    printf '\001%s\002' "$1" >> "$work/jsons"
    shift
    printf '%s\002' "$*" >> "$work/jsons"
    "$ecornn" "$@" >> "$work/jsons" 2> "$work/errors" || true
}

# ---- what is here, and plans ---------------------------------------------------------------------

for help in --help help; do has "Usage: ecornn COMMAND" $help; done
has "ecornn $(sed -n 3p "$source/NEWS")" --version
has "instruction sets: " info
json "'plain' in x['instruction sets'] and 'packed' in x['devices'][0]['algorithms']" info --json
has "ECORNN_FORCE=algorithm=" plan --device cpu:1 lstm/T5/N3/I4/H8
has "layer 1: gru/f32/infer/T3/N3/I16/H4" plan --device cpu:1 "T5/N3/I4; lstm/H8; join:2; gru/H4"
json "x[0]['choices'].startswith('algorithm=') and x[0]['bytes']['reserve'] > 0 and len(x[0]['print']) > 5" \
    plan --json --device cpu:1 lstm/train/T5/N3/I4/H8
has "planned in " plan --time --device cpu:1 lstm/train/T5/N3/I4/H8
json "x[0]['plan_seconds'] > 0" plan --json --time --device cpu:1 lstm/train/T5/N3/I4/H8
has "regret " plan --measure --seconds 0.005 --device cpu:1 lstm/T5/N3/I4/H8
json "any('seconds' in c for c in x[0]['candidates'])" \
    plan --json --measure --seconds 0.005 --device cpu:1 lstm/T5/N3/I4/H8
printf '[few]\nlstm/T2/N1/I2/H3 # a remark\ngru/T2/N1/I2/H3\n[other]\nmgu/T2/N1/I2/H3\n' > "$work/lists"
json "len(x) == 2" plan --json --device cpu:1 --shapes "$work/lists" @few
json "len(x) == 7" plan --json --device cpu:1 --random 7 --seed 3
json "max(int(p['problem'].split('/N')[1].split('/')[0]) for p in x) > 1024" \
    plan --json --device cpu:1 --random 40
has "GFLOP/s" bench --seconds 0.001 --device cpu:1 lstm/T2/N3/I4/H8/lengths:uniform
json "x[0]['rounds'] >= 5 and x[0]['ms_low'] <= x[0]['ms']" \
    bench --json --seconds 0.001 --device cpu:1 gru/train/T2/N3/I4/H8
has "GFLOP/s" bench --seconds 0.001 --device cpu:1 --cell "$source/tests/cells/two-products.cell" two-products/T4/N3/I5/H6

# A problem bears the name of the cell that runs; a net's cells are found by name.
for command in "plan" "plan --measure --seconds 0.002" "bench --seconds 0.002" "bench --json --seconds 0.002" \
    "tune --regret --seconds 0.002"; do
    refuse 1 "the problem names lstm, but " $command --device cpu:1 --cell "$source/tests/cells/two-products.cell" \
        lstm/T4/N3/I5/H6
done
has "two-products/f32" plan --device cpu:1 --cell "$source/tests/cells/two-products.cell" two-products/T4/N3/I5/H6
has "two-products/f32" plan --device cpu:1 --cell "$source/tests/cells/two-products.cell" "T4/N3/I5; two-products/H6; gru/H4"
# Problems with more than one plan are refused with an error.
for command in "bench --seconds 0.002" "tune --seconds 0.002" "plan --measure"; do
    refuse 1 "a net cannot be measured" $command --device cpu:1 "f32/T20/N4/I8; lstm/H8/bi"
done
for command in "tune --seconds 0.002" "plan --measure"; do
    refuse 1 "does not measure attention" $command --device cpu:1 attention/additive/T5/S5/N2/H8
done
has "backward" bench --seconds 0.001 --device cpu:1 attention/additive/train/T5/S5/N2/H8
refuse 1 "measured without --csv" bench --csv - --device cpu:1 attention/additive/T5/S5/N2/H8
has "GFLOP/s" bench --seconds 0.002 --device cpu:1 lstm/T5/N2/I4/H8/models:3
refuse 1 "models" tune --seconds 0.002 --device cpu:1 lstm/T5/N2/I4/H8/models:3
# Every word of the command line must have an effect.
refuse 2 "--seed requires --random" plan --seed 3 --device cpu:1 lstm/T2/N1/I1/H1
refuse 2 "--shapes requires an operand @LIST" plan --shapes "$work/lists" --device cpu:1 lstm/T2/N1/I1/H1
refuse 2 "--seconds requires --measure" plan --seconds 1 --device cpu:1 lstm/T2/N1/I1/H1
refuse 2 "--seconds requires a problem" tune --seconds 1
refuse 2 "built without" bench --versus cudnn lstm/T1/N1/I1/H1
refuse 2 "--version does not take 'word'" --version word
refuse 2 "wisdom has no option -o" wisdom list -o "$work/x"

has "GFLOP/s" bench --seconds 0.001 --device cpu:1 --csv "$work/csv" gru/T2/N3/I4/H8 gru/T2/N3/I4/H16
has "GFLOP/s" bench --seconds 0.001 --device cpu:2 --csv "$work/csv" gru/T2/N3/I4/H16 gru/train/save:states/T4/N3/I4/H8
[ "$(wc -l < "$work/csv")" = 5 ] || fail "rows: $(cat "$work/csv")"

# ---- tuning and wisdom ---------------------------------------------------------------------------

ECORNN_RECORD=$work/recorded "$ecornn" plan --device cpu:1 lstm/T3/N2/I4/H8 gru/T3/N2/I4/H8 lstm/T3/N2/I4/H8 > "$work/out"
[ "$(sort -u "$work/recorded" | wc -l)" = 2 ] || fail "recorded: $(cat "$work/recorded")"
has "regret of 2 problems" tune --seconds 0.002 --device cpu:1 --recorded "$work/recorded" -o "$work/one"
has "2 problems, 1 devices" wisdom check "$work/one"
has "regret" tune --seconds 0.002 --device cpu:1 mgu/T3/N2/I4/H8 -o "$work/one"
has "3 problems, 1 devices" wisdom check "$work/one"
# Recorded files contain a program's own cells with their text.
cat > "$work/mine.cell" << 'EOF'
# A remark with a \ in it.
cell mine(h)
u  = sigmoid(W x + R h + b)
h' = u * h + (1 - u) * tanh(W x + R h + b)
EOF
sed 's/mine/ours/; s/u \* h/h/' "$work/mine.cell" > "$work/ours.cell"
for cell in mine ours; do
    ECORNN_RECORD=$work/own "$ecornn" plan --device cpu:1 --cell "$work/$cell.cell" $cell/T3/N2/I4/H8 > "$work/out"
done
ECORNN_RECORD=$work/own "$ecornn" plan --device cpu:1 lstm/T3/N2/I4/H8 > "$work/out"
sed 's/ours/mine/' "$work/ours.cell" > "$work/other.cell" # of the same name
ECORNN_RECORD=$work/own "$ecornn" plan --device cpu:1 --cell "$work/other.cell" mine/T3/N2/I4/H8 > "$work/out"
json "[p['problem'].split('/')[0] for p in x] == ['mine', 'ours', 'lstm', 'mine']" \
    tune --json --regret --seconds 0.002 --device cpu:1 --recorded "$work/own"
has "" tune --seconds 0.002 --device cpu:1 --recorded "$work/own" -o "$work/own-wisdom"
json "sorted(bool(p['cell']) for p in x['problems']) == [False, True, True, True]" wisdom list --json "$work/own-wisdom"
# Options for other devices, and files that cannot be read.
if command -v python3 > /dev/null; then
    python3 - "$work/words" << 'EOF'
import sys
def fnv(text, value=0xcbf29ce484222325):
    for byte in text:
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value
words = b"cpu \xc2\x9b31m\xe2\x80\xae\xe2\x80\x8f\xff threads=3 version=1.0.0 name=x"
open(sys.argv[1], "wb").write(b"ecornn-wisdom 1\ndevice %016x %s\nlstm/f32/infer/T2/N2/I4/H8 - %016x algorithm=packed 5 1 2026-01-01\n"
                              % (fnv(words), words, fnv(words)))
EOF
    for command in "plan --device cpu:1 lstm/T2/N2/I4/H8" "plan --json --device cpu:1 lstm/T2/N2/I4/H8" \
        "wisdom list words" "wisdom list --json words" "wisdom list --json one"; do
        (cd "$work" && ECORNN_WISDOM=$work/words "$ecornn" $command > "$work/out" 2>&1) || fail "$command"
        ! LC_ALL=C grep -q "$(printf '\302\233\|\342\200\256\|\342\200\217\|\377')" "$work/out" || fail "raw: $command"
    done
    ECORNN_WISDOM=$work/words has '\xC2\x9B31m\xE2\x80\xAE' plan --device cpu:1 lstm/T2/N2/I4/H8
    has '\xC2\x9B31m\xE2\x80\xAE\xE2\x80\x8F\xFF' wisdom list "$work/words"
    json "'\u009b31m\u202e' in x['devices'][0]['words']" wisdom list --json "$work/words"
    printf 'lstm/T2/N2/I4/H8\302\233\n' > "$work/raw"
    refuse 1 '\xC2\x9B: a problem has ASCII characters only' plan --device cpu:1 --recorded "$work/raw"
fi
ECORNN_WISDOM=$work/none refuse 1 "none: No such file" wisdom list
ECORNN_WISDOM=$work refuse 1 "not a regular file" wisdom list --json
if [ "$(id -u)" != 0 ]; then
    echo 'ecornn-wisdom 1' > "$work/closed" && chmod 0 "$work/closed"
    ECORNN_WISDOM=$work/closed refuse 1 "closed: Permission denied" wisdom list
fi
echo 'ecornn-wisdom 1' > "$work/moded" && chmod 640 "$work/moded"
has "regret" tune --seconds 0.002 --device cpu:1 mgu/T3/N2/I4/H8 -o "$work/moded"
case $(ls -l "$work/moded") in -rw-r-----*) ;; *) fail "mode: $(ls -l "$work/moded")" ;; esac
[ "$(id -u)" != 0 ] || {
    mkdir "$work/home" && chown 1234 "$work/home"
    XDG_CONFIG_HOME=$work/home has "regret" tune --seconds 0.002 --device cpu:1 mgu/T3/N2/I4/H8
    for name in ecornn ecornn/wisdom; do
        [ "$(stat -c %u "$work/home/$name")" = 1234 ] || fail "owner of $name: $(ls -ln "$work/home/ecornn")"
    done
}
before=$(cat "$work/one")
json "x[0]['candidates'] > 0 and x[0]['wrong'] == 0" tune --json --regret --seconds 0.005 --device cpu:1 lstm/T4/N2/I4/H8
json "x[0]['candidates'] >= 3 and x[0]['measured'] and not x[0]['complete'] and x[0]['regret'] is not None" \
    tune --json --regret --seconds 0.0001 --device cpu:1 lstm/T20/N128/I64/H64
has "3 candidates each" tune --regret --seconds 0.0001 --device cpu:1 --shapes "$work/lists" --csv "$work/tried" @few
[ "$(wc -l < "$work/tried")" -ge 9 ] || fail "rows of candidates: $(cat "$work/tried")"
has "" tune --regret --again 1 --seconds 0.0001 --device cpu:1 --shapes "$work/lists" @few
has "planner: algorithm=" tune --regret --seconds 0.002 --device cpu:1 lstm/T4/N2/I4/H8
ECORNN_WISDOM=$work/one has "regret of 3 problems, 2 by wisdom: mean" \
    plan --measure --seconds 0.002 --device cpu:1 mgu/T3/N2/I4/H8 gru/T3/N2/I4/H8 gru/T3/N2/I4/H9
ECORNN_WISDOM=$work/one has "%: planned by wisdom " plan --measure --seconds 0.002 --device cpu:1 lstm/T3/N2/I4/H8
ECORNN_WISDOM=$work/one json "x[0]['by_wisdom']" plan --json --measure --seconds 0.002 --device cpu:1 lstm/T3/N2/I4/H8
[ "$before" = "$(cat "$work/one")" ] || fail "--regret wrote"
ECORNN_WISDOM=$work/one "$ecornn" plan --device cpu:1 lstm/T3/N2/I4/H8 > "$work/out"
grep -q '^wisdom: lstm/f32/infer/T3/N2/I4/H8, ' "$work/out" || fail "a plan without wisdom: $(cat "$work/out")"
ECORNN_WISDOM=$work/one "$ecornn" plan --device cpu:2 lstm/T3/N2/I4/H8 > "$work/out"
grep -q 'not used: threads=1, here threads=2' "$work/out" || fail "of another device: $(cat "$work/out")"
has "regret" tune --seconds 0.002 --device cpu:2 lstm/T3/N2/I4/H8
has "1 problems, 1 devices" wisdom check "$work/ecornn/wisdom"
cp "$work/one" "$work/both"
has "regret" tune --seconds 0.002 --device cpu:2 lstm/T3/N2/I4/H8 -o "$work/both"
has "4 problems, 2 devices" wisdom check "$work/both"
has "lstm/f32/infer/T3/N2/I4/H8" wisdom list "$work/both"
json "len(x['problems']) == 4 and len(x['devices']) == 2" wisdom list --json "$work/both"
json "x[0]['problems'] == 4 and x[0]['error'] is None" wisdom check --json "$work/both"
echo nonsense >> "$work/both"
refuse 1 "both:8: the line is not PROBLEM" wisdom check "$work/both"
json "'not PROBLEM' in x[0]['error']" wisdom check --json "$work/both"
refuse 1 "both:8: " tune --device cpu:1 lstm/T3/N2/I4/H8 -o "$work/both"
grep -q nonsense "$work/both" || fail "a wrong file was written over"
mkdir -p "$work/odd/ecornn"
mkfifo "$work/odd/ecornn/wisdom"
XDG_CONFIG_HOME=$work/odd refuse 1 "not a regular file" tune --seconds 0.002 --device cpu:1 lstm/T3/N2/I4/H8
[ -p "$work/odd/ecornn/wisdom" ] || fail "what could not be read was written over"
refuse 1 "cannot lock" tune --seconds 0.002 --device cpu:1 lstm/T3/N2/I4/H8 -o "$work/none/file"
for cell in lstm gru; do
    for width in 1 2 3 4 5; do echo "$cell/T3/N2/I4/H$width"; done > "$work/$cell"
    "$ecornn" tune --seconds 0.002 --device cpu:1 --recorded "$work/$cell" -o "$work/shared" > "$work/out.$cell" 2>&1 &
done
wait
has "10 problems, 1 devices" wisdom check "$work/shared"
sed 's/^lstm/# by hand, lstm* and more words than a line has\n&/; 1s/$/\n# first/' "$work/one" > "$work/remarks"
has "regret" tune --seconds 0.002 --device cpu:1 lstm/T3/N2/I4/H8 -o "$work/remarks"
[ "$(grep -c '^#' "$work/remarks")" = 2 ] || fail "remarks: $(cat "$work/remarks")"
[ "$(sed -n 2p "$work/remarks")" = "# first" ] || fail "the first remark: $(cat "$work/remarks")"
json "len(x['problems']) == 3" wisdom list --json "$work/remarks"
odd=$work/$(printf 'n\303\251\377\300\257\355\240\200\037')
cp "$work/one" "$odd"
json "x[0]['file'].endswith('n\u00e9\\\\xFF\\\\xC0\\\\xAF\\\\xED\\\\xA0\\\\x80\\x1f') and x[0]['problems'] == 3" \
    wisdom check --json "$odd"
long=$work
for level in 1 2 3 4 5 6; do long=$long/$(printf '%0200d' $level); done # more than 1024 bytes
mkdir -p "$long"
has "regret" tune --seconds 0.002 --device cpu:1 mgu/T3/N2/I4/H8 -o "$long/wisdom"
XDG_CONFIG_HOME=$long has "regret" tune --seconds 0.002 --device cpu:1 mgu/T3/N2/I4/H8
XDG_CONFIG_HOME=$long ECORNN_WISDOM= has "wisdom: mgu/" plan --device cpu:1 mgu/T3/N2/I4/H8
long=/$(printf '%05000d' 1)
refuse 1 "must have at most 4095" tune --device cpu:1 mgu/T3/N2/I4/H8 -o "$long"
XDG_CONFIG_HOME=$long refuse 1 "must have at most 4095" tune --device cpu:1 mgu/T3/N2/I4/H8
XDG_CONFIG_HOME=$long ECORNN_WISDOM= has "must have at most 4095" plan --device cpu:1 mgu/T3/N2/I4/H8
ECORNN_WISDOM=$long has "path too long" info

# ---- cells and the check -------------------------------------------------------------------------

has "backward, stage 0" cell "$source/common/cell/gru.cell"
for cell in lstm lif; do has "forward, stage 0" cell $cell; done
printf "cell x(h)\nh' = tanh(W x + relux(R h) + b)\n" > "$work/wrong.cell"
refuse 1 "wrong.cell:2:17: there is no function 'relux'" cell "$work/wrong.cell"
refuse 1 "                  ^~~~~" cell "$work/wrong.cell"
json "x['line'] == 2 and x['column'] == 17 and not x['good']" cell --json "$work/wrong.cell"
json "x['good'] and x['states'] == 2" cell --json lstm
has "# Source: E. Neftci" cell lif
json "x['text'][1].startswith('# Source: ') and x['states'] == 2" cell --json lif
has "Leaky integrate-and-fire" cell --list
json "len(x) >= 53 and {'name': 'lstm', 'built in': True, 'about': 'built in'} in x" cell --json --list
json "sum(not one['built in'] for one in x) >= 40" cell --json --list
refuse 2 "--list does not take 'lif'" cell --list lif
for named in "" "--cell lif"; do has "lif/f32/train" plan --device cpu:1 $named lif/train/T4/N3/I5/H6; done
has "GFLOP/s" bench --seconds 0.001 --device cpu:1 lru/T4/N3/I5/H6
mkdir "$work/named" # a file comes before the library, and built-in cells before both
printf "cell lif(h)\nh' = tanh(W x + R h)\n" > "$work/named/lif"
cp "$work/named/lif" "$work/named/lstm"
for word in lif:1 lstm:2; do
    (cd "$work/named" && json "x['states'] == ${word#*:}" cell --json "${word%:*}") || exit 1
done
(cd "$work/named" && has "lif/f32/train" plan --device cpu:1 --cell lif lif/train/T4/N3/I5/H6) || exit 1
has " passed, 0 failed" check --device cpu:1
json "len(x) >= 2 and all(one['failed'] == 0 for one in x)" check --json
ECORNN_FORCE=algorithm=none json "sum(one['passed'] for one in x) > 20" check --json --device cpu:1

# ---- what is wrong -------------------------------------------------------------------------------

refuse 2 "unknown command 'nothing'" nothing
refuse 2 "Usage"
refuse 2 "info has no option --measure" info --measure
refuse 2 "--seconds needs a value" bench --seconds
for value in "" 0 -1 " 1" x 1, 99999999999999999999; do
    refuse 2 "must be 1 to 1000000" plan --random "$value"
    refuse 2 "must be more than 0" bench --seconds "$value" lstm/T1/N1/I1/H1
    refuse 2 "must be numbers from 1 to 1024" bench --threads "$value" lstm/T1/N1/I1/H1
done
has "Usage: ecornn bench" help bench
refuse 2 "unknown command 'nothing'" help nothing
refuse 2 "cell needs FILE" cell
refuse 2 "wisdom has no 'what'" wisdom what
refuse 2 "wisdom check needs FILE" wisdom check
refuse 2 "plan needs a problem" plan
refuse 2 "tune needs a problem" tune --regret
refuse 2 "--regret writes no wisdom" tune --regret -o "$work/none" lstm/T1/N1/I1/H1
refuse 2 "--again requires --regret" tune --again 1 lstm/T1/N1/I1/H1
refuse 2 "at most 32 problems" tune --regret --again 33 lstm/T1/N1/I1/H1
for command in info check; do refuse 2 "$command does not take 'x'" $command x; done
refuse 2 "cell does not take 'gru'" cell lstm gru
: > "$work/empty"
refuse 1 "no problem" plan --recorded "$work/empty"
if [ -w /dev/full ]; then
    found=0
    "$ecornn" info > /dev/full 2> "$work/errors" || found=$?
    [ $found = 1 ] || fail "exit $found where the output is lost"
    grep -q "cannot write the output" "$work/errors" || fail "lost output: $(cat "$work/errors")"
    "$ecornn" info >&- 2> "$work/errors" || found=closed
    [ $found = closed ] || fail "printed to a closed output"
fi
refuse 1 "; valid are f32 f64" plan lstm/nonsense
(export ECORNN_ALGORITHM=fast &&
    refuse 1 'ECORNN_ALGORITHM is "fast", must be one of packed' plan --device cpu:1 lstm/T1/N1/I1/H1)
refuse 1 "layer 0 of a net" plan --device cpu:1 "T5/N3/I4; nonsense"
refuse 1 "a net cannot be measured" plan --measure --device cpu:1 "T5/N3/I4; lstm/H8"
refuse 1 "is unknown" plan --device nothing lstm/T1/N1/I1/H1
refuse 1 "there is no list [none]" plan --shapes "$work/lists" @none
for where in "cell" "plan --recorded" "plan @few --shapes" "plan lstm/T1/N1/I1/H1 --cell"; do
    refuse 1 "/dev/zero cannot be opened, or is neither a file nor a pipe" $where /dev/zero
done
ECORNN_ISA=avx3 refuse 1 'ECORNN_ISA is "avx3", must be one of plain, ' plan --device cpu:1 lstm/T1/N1/I1/H1
ECORNN_FORCE=chunk=2,groups=2 has "chunk=2" plan --device cpu:1 lstm/T5/N3/I4/H8
ECORNN_FORCE=chunk=2 refuse 1 "unset ECORNN_FORCE before tuning" tune --regret --device cpu:1 lstm/T1/N1/I1/H1

[ -z "$python" ] || python3 - "$work/jsons" << 'EOF' || fail "the JSON above"
import json, sys
for expression, command, text in (one.split(b"\2") for one in open(sys.argv[1], "rb").read().split(b"\1")[1:]):
    x = json.loads(text.decode())
    assert eval(expression.decode()), (expression, command)
EOF

# ---- documents -----------------------------------------------------------------------------------

commands=$("$ecornn" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
[ "$(echo "$commands" | wc -w)" -ge 7 ] || fail "commands: $commands"
for command in $commands; do
    has "Usage: ecornn $command" "$command" --help
    for page in tools/ecornn/ecornn.1 tools/ecornn/ecornn.bash doc/guide/command.md; do
        grep -q "$command" "$source/$page" || fail "$page has no $command"
        options=$("$ecornn" "$command" --help | sed -n 's/^  \(--*[a-z]*\) .*/\1/p')
        for option in ${options:-no-option-at-all}; do
            grep -q -e "${option#-}" "$source/$page" || fail "$page has no $option"
        done
    done
done
if command -v bash > /dev/null; then
    words=$(bash -c '. "$1"; COMP_WORDS=(ecornn plan --); COMP_CWORD=2; _ecornn; echo "${COMPREPLY[@]}"' \
        - "$source/tools/ecornn/ecornn.bash")
    case $words in *--measure*) ;; *) fail "the completion offers '$words'" ;; esac
fi
! command -v man > /dev/null || man -l "$source/tools/ecornn/ecornn.1" > "$work/out" 2>&1 || fail "the manual page"
echo "command: good"
