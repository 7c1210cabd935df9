# Read by test/e2e/run and test/networks/run, which define root, work (a folder), images, say and
# fail. build_images makes the images of this tree, as $work/NAME.tar, and writes their names to
# $work/images.
# shellcheck shell=bash disable=SC2154

install_packages() { # what makes images where nothing else does
  local missing=() package
  for package in buildah debootstrap; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } \
    >"$work/apt.log" 2>&1 || {
    tail -n 20 "$work/apt.log" >&2
    fail "${missing[*]} can't be installed"
  }
}

images_work() { for tool in docker podman buildah; do command -v $tool >/dev/null && $tool info >/dev/null 2>&1 && return; done; return 1; }

build_images() {
  if ! images_work || ! command -v debootstrap >/dev/null; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then fail "docker, podman or buildah, and debootstrap are needed"; fi
    install_packages
  fi
  IMAGES="${images[*]}" ARCHIVES=$work OFFLINE=${OFFLINE-1} REGISTRY=localhost "$root/images/build" >"$work/images" 2>"$work/images.log"
}
