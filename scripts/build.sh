#!/usr/bin/env bash
# Configures and builds into build/ (or the preset named first). Quiet unless it fails.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
preset=${1:-release}
cd "$root"
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
[[ -f build/build.ninja && $preset == release ]] || cmake --preset "$preset" -Wno-dev >"$root/.configure.log" 2>&1 ||
  { cat "$root/.configure.log" >&2; exit 1; }
rm -f "$root/.configure.log"
cmake --build --preset "$preset" -- --quiet ${2:+"${@:2}"}
