# Sourced by the other scripts: installing Debian packages, building a preset. Everything works as
# root or through sudo, from any folder, and without network once the packages are there.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build_packages=(
  g++ cmake ninja-build ccache python3 libdnnl-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  libcli11-dev libjpeg62-turbo-dev libpng-dev zlib1g-dev liblzma-dev nettle-dev libxxhash-dev
  libdlpack-dev libgtest-dev libbenchmark-dev
)

# install_packages NAME...: asks the package manager only about those that are missing.
install_packages() {
  local name missing=() as_root=()
  for name in "$@"; do
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" != installed ]; then
      missing+=("$name")
    fi
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "Installing ${missing[*]}" >&2
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "${missing[@]}")
  # Stale or absent package lists are the common reason for a first failure.
  "${install[@]}" >&2 || { "${as_root[@]}" apt-get update -q >&2 && "${install[@]}" >&2; }
}

# build_preset NAME [CMAKE_ARGUMENT...]: configures and builds into build/NAME.
build_preset() {
  local preset=$1
  shift
  (
    cd "$root"
    export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1  # clones of the project share what they compiled
    cmake --preset "$preset" "$@" >&2
    cmake --build --preset "$preset" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >&2
  )
}
