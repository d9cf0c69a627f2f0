#!/usr/bin/env bash
# run.sh HARMONYC OUT_DIR [EPOCHS]: compiles the network and trains it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
harmonyc=$1 out=$2 epochs=${3:-20}
mkdir -p "$out"
"$harmonyc" compile "$here/digits.onnx" --batch 32 -o "$out/digits"
"$out/digits" --data "$here/../data/digits_train.npz" --val "$here/../data/digits_test.npz" \
  --epochs "$epochs" --lr 3e-3 --lr-schedule cosine --metric accuracy:logits,labels \
  --save "$out/trained.safetensors" --log "$out/log.jsonl"
"$out/digits" --init-from "$out/trained.safetensors" --val "$here/../data/digits_test.npz" --eval-only \
  --metric accuracy:logits,labels
