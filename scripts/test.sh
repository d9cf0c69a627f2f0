#!/usr/bin/env bash
# Builds everything and runs every test: unit tests (gtest) and text tests (lit), which
# include whole models from ONNX to trained weights. The last line counts them all.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
scripts/setup.sh
scripts/build.sh release
exec python3 scripts/run_tests.py build "$@"
