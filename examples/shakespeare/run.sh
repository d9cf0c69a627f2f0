#!/usr/bin/env bash
# run.sh HARMONYC OUT_DIR [STEPS]: cuts the text, compiles the GPT for a device with half the
# memory of its training state, and trains it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
harmonyc=$1 out=$2 steps=${3:-400}
mkdir -p "$out"
"${PYTHON:-python3}" "$here/make_data.py" "$here/../data/shakespeare.txt" "$out"
"$harmonyc" plan "$here/gpt.onnx" --batch 32 --device-memory 50%
"$harmonyc" compile "$here/gpt.onnx" --batch 32 --device-memory 50% -o "$out/gpt"
"$out/gpt" --data "$out/train.npz" --val "$out/val.npz" --steps "$steps" --eval-every 100 \
  --lr 4e-3 --lr-schedule cosine --warmup 40 --save "$out/trained.safetensors" --log "$out/log.jsonl"
