# A Debian of debootstrap's with nothing but what it needs itself, in which packages are tried;
# sourced by the scripts that try one.

# clean_root ROOT: makes it where it is not whole. Takes root. Packages in it come from this
# machine's package sources and by its name servers and settings.
clean_root() {
  local root=$1
  command -v debootstrap > /dev/null || apt-get install -y -q --no-install-recommends debootstrap
  if [[ ! -e $root/made ]]; then
    rm -rf "$root"
    mkdir -p "$(dirname "$root")"
    debootstrap --variant=minbase bookworm "$root" > "$root.log" 2>&1 \
      || { tail -n 20 "$root.log" >&2; return 1; }
    touch "$root/made"
  fi
  cp /etc/resolv.conf "$root/etc/"
  rm -f "$root/etc/apt/sources.list"
  cp -r /etc/apt/. "$root/etc/apt/"
}

# in_root ROOT COMMAND…: in it, with the environment of a fresh login, this machine's settings of pip,
# and /proc, from which a program learns its own place; the mount ends with the command.
in_root() {
  local root=$1
  shift
  # shellcheck disable=SC2016
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" \
    env -i DEBIAN_FRONTEND=noninteractive LC_ALL=C HOME=/root \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${root_settings[@]}" "$@"
}
mapfile -t root_settings < <(env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=)' || true)
