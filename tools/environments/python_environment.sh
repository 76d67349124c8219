# Environments of PyPI's packages, outside the checkout so that every checkout shares them; sourced
# by the scripts that install one.
#
# The stamp is written last and holds the versions: without it an environment is not finished.

fail() { echo "tools/install: $1" >&2; exit 2; }

# environment_place NAME: the place of the environment with this name, made or not.
environment_place() { echo "${XDG_DATA_HOME:-$HOME/.local/share}/stringline/$1"; }

# True if a CUDA compiler is there, the machine's or that of `tools/install --cuda`.
there_is_nvcc() {
  [[ -x /usr/local/cuda/bin/nvcc ]] || command -v nvcc > /dev/null \
    || [[ -x $(environment_place cuda)/toolkit/bin/nvcc ]]
}

# environment_is_there PLACE PACKAGES
environment_is_there() { cmp -s "$2" "$1/stringline.stamp"; }

# install_environment NAME SIZE PLACE PACKAGES FINISH: makes the environment, or updates one with
# other versions or without a stamp; a half-made environment is made anew. FINISH PYTHON is called
# before the stamp is written.
install_environment() {
  local name=$1 size=$2 place=$3 packages=$4 finish=$5 python= candidate
  local unfinished=$place/stringline.unfinished stamp=$place/stringline.stamp
  mkdir -p "$(dirname "$place")"
  exec 9> "$place.lock"
  flock --wait 3600 9 || fail "another installation of $name has not ended for an hour"
  if environment_is_there "$place" "$packages"; then
    echo "tools/install: $name is installed already"
    return 0
  fi
  for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
      python=$candidate
      break
    fi
  done
  [[ -n $python ]] || fail "$name needs python 3.11 or later, with its venv module"
  if [[ -e $unfinished ]]; then
    echo "tools/install: $place was not finished, it is made anew"
    rm -rf "$place"
  fi
  echo "tools/install: $name is installed in $place (about $size)"
  mkdir -p "$place"
  touch "$unfinished"
  rm -f "$stamp"
  [[ -x $place/bin/python ]] || "$python" -m venv "$place"
  "$place/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --timeout 60 --retries 3 -r "$packages"
  "$finish" "$place/bin/python" || fail "$place is broken; run this again"
  cp "$packages" "$stamp.part"
  mv "$stamp.part" "$stamp"
  rm "$unfinished"
  du -sh "$place" | awk -v name="$name" '{ print "tools/install: " name " is installed, " $1 "B" }'
}
