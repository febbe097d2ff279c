#!/bin/sh
# installcheck.sh DESTDIR LIBDIR consumer.c: builds an application with only pkg-config and what was
# installed, for each kind of library (shared, static), and with CMake if there is one; runs it each time.
# Uses $CC $CFLAGS $PKG_CONFIG.
set -eu
destdir=$1 libdir=$2 source=$(cd "$(dirname "$3")" && pwd)/${3##*/}
work=$(mktemp -d "${TMPDIR:-/tmp}/ecornn-installcheck.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$source" "$work/consumer.c"
cd "$work"

PKG_CONFIG_DISABLE_UNINSTALLED=1
PKG_CONFIG_PATH=$destdir$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_DISABLE_UNINSTALLED PKG_CONFIG_PATH
[ -z "$destdir" ] || export PKG_CONFIG_SYSROOT_DIR="$destdir"
if grep '@' "$destdir$libdir/pkgconfig/ecornn.pc"; then
    echo "ecornn.pc: a variable was not filled in"
    exit 1
fi

built=
# The commands and flags are lists of words: unquoted on purpose.
if [ -e "$destdir$libdir/libecornn.so" ]; then
    $CC $CFLAGS -o shared consumer.c $($PKG_CONFIG --cflags --libs ecornn)
    LD_LIBRARY_PATH=$destdir$libdir ./shared
    built="$built shared"
fi
if [ -e "$destdir$libdir/libecornn.a" ]; then
    $CC $CFLAGS -o static consumer.c \
        $($PKG_CONFIG --static --cflags --libs ecornn | sed 's/-lecornn/-l:libecornn.a/g')
    ./static
    built="$built static"
fi
[ -n "$built" ] || { echo "no library in $destdir$libdir"; exit 1; }

# Builds one program with each target that exists.  CMake is also asked for an older and a newer version.
if command -v cmake > /dev/null; then
    cat > CMakeLists.txt << 'EOF'
cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(ecornn ${WANTED} REQUIRED)
foreach(target ecornn static)
  if(TARGET ecornn::${target})
    add_executable(with_${target} consumer.c)
    target_link_libraries(with_${target} ecornn::${target} m)
  endif()
endforeach()
EOF
    version=$(sed -n 's/^Version: //p' "$destdir$libdir/pkgconfig/ecornn.pc")
    with_cmake() { # version
        # $CC may be several words: a launcher before the compiler is left out.
        cmake -S . -B "cmake-$1" -DWANTED="$1" -Decornn_DIR="$destdir$libdir/cmake/ecornn" \
            -DCMAKE_C_COMPILER="${CC##* }" -DCMAKE_C_FLAGS="$CFLAGS" > "cmake-$1.log" 2>&1
    }
    with_cmake "$version" && cmake --build "cmake-$version" > build.log 2>&1 ||
        { cat cmake-*.log build.log; echo "cmake: no program"; exit 1; }
    for program in "cmake-$version"/with_*; do
        LD_LIBRARY_PATH=$destdir$libdir "./$program"
        built="$built ${program##*/}"
    done
    for other in 99.0 0.99; do
        ! with_cmake $other || { echo "cmake: version $other was found in $version"; exit 1; }
    done
fi
echo "installcheck:$built"
