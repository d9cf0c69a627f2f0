#!/usr/bin/env bash
# Installs what harmonyc builds with: Debian packages, and ONNX's C++ library from its
# source package on PyPI. Safe to run again; does nothing where all is there.
# Needs Debian 12 with its security suite enabled (LLVM 22 comes from there).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
deps=${HARMONY_DEPS:-$HOME/.cache/harmonyc/deps}
onnx_version=1.23.2
onnx_sha256=008cb0467b2bbee41448acc7da8b6f4e704624cb0d327a2d5adafc7ce19bc5b8

packages=(
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools clang-22 lld-22 liblld-22-dev
  libclang-rt-22-dev clang-format-22 clang-tidy-22 cmake ninja-build ccache g++ make
  libprotobuf-dev protobuf-compiler libdnnl-dev libgtest-dev libgmock-dev
  nlohmann-json3-dev libcli11-dev libzip-dev zlib1g-dev libzstd-dev
  libonnx-testdata python3 python3-pip python3-venv python3-numpy git
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "setup: installing ${#missing[@]} Debian packages"
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get failed. It needs root, Debian 12 and its security suite (for LLVM 22)." >&2
    exit 1
  fi
  rm -f "$log"
fi

if [[ ! -f $deps/onnx-$onnx_version.done ]]; then
  echo "setup: building ONNX $onnx_version"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  log=$work/log
  build_onnx() {
    python3 -m pip download -q --disable-pip-version-check --no-binary onnx --no-deps -d "$work" "onnx==$onnx_version" &&
    echo "$onnx_sha256  $work/onnx-$onnx_version.tar.gz" | sha256sum -c - &&
    tar -xzf "$work/onnx-$onnx_version.tar.gz" -C "$work" &&
    # Debian's CMake 3.25 builds it; the file asks for 3.26.
    sed -i 's/VERSION 3.26/VERSION 3.25/' "$work/onnx-$onnx_version/CMakeLists.txt" &&
    cmake -S "$work/onnx-$onnx_version" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
      "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" -DONNX_USE_UNITY_BUILD=ON \
      -DONNX_USE_PROTOBUF_SHARED_LIBS=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
      -DCMAKE_CXX_COMPILER=g++ -DCMAKE_INSTALL_PREFIX="$deps" &&
    ninja -C "$work/build" &&
    cmake --install "$work/build"
  }
  build_onnx >"$log" 2>&1 || { tail -n 30 "$log" >&2; echo "setup: building ONNX failed" >&2; exit 1; }
  touch "$deps/onnx-$onnx_version.done"
fi
