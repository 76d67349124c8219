#!/usr/bin/env bash
# Installs the library out of a build folder, builds examples/12_embed from the installed tree
# alone, and runs the example: installed_library.sh BUILD-FOLDER SOURCES WORK-FOLDER
set -euo pipefail
build=$(realpath "$1") sources=$(realpath "$2") work=$(realpath -m "$3")

rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/tree" --component dev > "$work/install.log"
# A copy outside the sources: no header of the checkout is within reach.
cp -r "$sources/examples/12_embed" "$work/embed"
cmake -S "$work/embed" -B "$work/made" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/tree" > "$work/configure.log" || { cat "$work/configure.log"; exit 1; }
if grep -q -F "$sources" -r "$work/tree/lib"*/cmake; then
  echo "the installed configuration names the sources" >&2
  exit 1
fi
cmake --build "$work/made" > "$work/build.log" || { cat "$work/build.log"; exit 1; }

cd "$work"
made/embed zb_v 4 8 zb_v.svg | tee said
[[ $(cat said) == "zb_v P=4 M=8: bubble "* ]]
grep -q '<svg' zb_v.svg && grep -q '</svg>' zb_v.svg
# A schedule with a finding, and a missing file.
printf 'schedule bad(P, M) {\n  stages P on line;\n  rank r { F r }\n}\n' > bad.sched
! made/embed bad.sched 2 2 bad.svg 2> said
grep -q 'bad.sched:' said && [[ ! -e bad.svg ]]
! made/embed none.sched 2 2 none.svg 2> said
grep -q 'none.sched' said
