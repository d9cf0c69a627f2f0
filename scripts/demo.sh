#!/usr/bin/env bash
# Installs what is missing, builds harmonyc, and runs both examples: a small network on
# handwritten digits, and a character-level GPT on plays, on a device with half the memory that its
# training state needs. Everything it makes is under out/.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
scripts/setup.sh
scripts/build.sh release harmonyc
export PYTHON=/usr/bin/python3 # has numpy: the setup installed it
mkdir -p out
echo "== digits"
examples/digits/run.sh build/bin/harmonyc out/digits
echo "== shakespeare"
examples/shakespeare/run.sh build/bin/harmonyc out/shakespeare
