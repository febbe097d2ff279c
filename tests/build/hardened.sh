#!/bin/sh
# hardened.sh [LIBRARY...]: libraries have what ECO_HARDENING (m4/eco_flags.m4) found: tables of symbols
# that nobody writes once they are loaded, guarded stacks, and checked copies.  Without arguments
# those of this build; tests/test_wheel.tap asks for those of wheels.
set -eu
command -v readelf > /dev/null || { echo "no readelf: skipped"; exit 77; }
status=0
cases=0

has() { # flag, library, readelf's option, pattern: if the build has the flag, readelf must show the pattern
    case " $HARDENING " in *"$1"*) ;; *) return 0 ;; esac
    cases=$((cases + 1))
    readelf -W "$3" "$2" | grep -q -e "$4" || { echo "$2: no $1"; status=1; }
}
[ $# -gt 0 ] || set -- .libs/*.so
for library in "$@"; do
    has -z,relro "$library" -l GNU_RELRO
    has -z,now "$library" -d 'FLAGS.* NOW\|BIND_NOW'
    case $library in
    *libecornn*)
        has -fstack-protector "$library" --dyn-syms __stack_chk_fail
        has _FORTIFY_SOURCE "$library" --dyn-syms '__[a-z]*_chk\(@\|$\)'
        ;;
    esac
done
echo "$HARDENING"
echo "cases: $cases"
exit $status
