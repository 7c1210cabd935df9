# Settings of the other scripts of this folder: the tool that builds images, and the report of a
# failure.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")

say() { echo "images: $*" >&2; }
fail() {
  say "$*"
  exit 1
}

# The first that works: docker's client alone, without its daemon, does not.
choose_tool() {
  local wanted=${IMAGE_TOOL:-}
  for tool in ${wanted:-docker podman buildah}; do
    command -v "$tool" >/dev/null || continue
    case $tool in
      docker) docker info >/dev/null 2>&1 || continue ;;
      # Without a container runtime's rights, for instance in a VM of CI: no overlay mounts, no
      # namespaces.
      buildah) export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot} ;;
    esac
    return
  done
  fail "no tool that builds images works here${wanted:+ (IMAGE_TOOL=$wanted)}: docker with its daemon, podman or buildah is needed; on Debian: apt-get install buildah"
}

build_image() { # CONTAINERFILE NAME [ARGUMENT]...
  local file=$1 name=$2
  shift 2
  case $tool in
    buildah)
      local old
      old=$(buildah images -q "$name" 2>/dev/null || true)
      buildah build --layers=false -f "$file" -t "$name" "$@" "$root" || return
      # With the storage driver vfs each image is a whole copy: the one that has lost its name goes.
      if [ -n "$old" ] && [ "$old" != "$(buildah images -q "$name")" ]; then buildah rmi "$old" || true; fi
      ;;
    *) "$tool" build -f "$file" -t "$name" "$@" "$root" ;;
  esac
}

has_image() { # NAME
  case $tool in
    buildah) buildah inspect --type image "$1" ;;
    *) "$tool" image inspect "$1" ;;
  esac >/dev/null 2>&1
}

save_image() { # NAME FILE: as an archive that docker load and ctr images import read
  rm -f "$2"
  case $tool in
    docker) docker save -o "$2" "$1" ;;
    podman) podman save --format docker-archive -o "$2" "$1" ;;
    buildah) buildah push -q "$1" "docker-archive:$2:$1" ;;
  esac
}
