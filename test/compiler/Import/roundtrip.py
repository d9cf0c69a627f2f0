"""Imports each model under a folder, writes it back, imports that, and compares.

usage: roundtrip.py MODELS SCRATCH
"""
import pathlib
import re
import subprocess
import sys


def translate(*arguments):
    return subprocess.run(["harmony-translate", *map(str, arguments)], check=True)


def content(path):
    """The module without the path of the model, which external data needs."""
    return re.sub(r', onnx\.source = "[^"]*"', "", path.read_text())


models, scratch = map(pathlib.Path, sys.argv[1:])
scratch.mkdir(parents=True, exist_ok=True)
paths = sorted(models.glob("*/*.onnx"))
if not paths:
    sys.exit(f"there are no models in {models}")
changed = []
for path in paths:
    first, written, second = (scratch / name for name in ("first.mlir", "model.onnx", "second.mlir"))
    translate("--import-onnx", path, "-o", first)
    translate("--mlir-to-onnx", first, "-o", written)
    translate("--import-onnx", written, "-o", second)
    if content(first) != content(second):
        changed.append(str(path))
if changed:
    sys.exit("changed on the way: " + ", ".join(changed))
print(f"{len(paths)} models")
