#!/usr/bin/env python3
"""Compile ONNX training graphs (training_info) with harmonyc, train five steps, compare.

    check_training_info.py --harmonyc build/bin/harmonyc [--compile-flag=FLAG ...] MODEL.onnx ...

Beside MODEL.onnx lie MODEL.json and MODEL.safetensors with the reference: losses before each
step and after the last, gradients of the first, and every weight, moment and counter after five.

Tolerances. The reference takes its steps in float32; MODEL.json says how far one is from the ONNX evaluator's. The part
of Adam's that is systematic is known: the reference corrects the second moment by 1 - 0.999^T where the model's attribute
is the float 0.99900001, so that its rate is 6.4e-6 greater (with a rate that much greater all losses agree to 2e-7).
Losses may differ by that share of what training has changed them by. A gradient that is 0 in exact arithmetic (the bias of
attention's keys) is rounding noise, which Adam turns into steps of up to the rate: such elements are bounded by that.
"""
import argparse, json, os, shutil, sys, tempfile

import numpy as np

from check_golden import l2, read_losses, read_safetensors
import subprocess


def run(args, model, work):
    base = os.path.splitext(model)[0]
    reference = read_safetensors(base + ".safetensors")
    manifest = json.load(open(base + ".json"))
    inputs = {k[len("input/"):]: v for k, v in reference.items() if k.startswith("input/")}
    np.savez(os.path.join(work, "data.npz"), **inputs)
    exe = os.path.join(work, "train")
    batch = str(next(iter(inputs.values())).shape[0])
    compile_cmd = [args.harmonyc, "compile", model, "-o", exe, "--batch", batch, *args.compile_flag]
    run_cmd = [exe, "--data", os.path.join(work, "data.npz"), "--steps", "5", "--no-shuffle",
               "--log", os.path.join(work, "log.jsonl"), "--save", os.path.join(work, "weights.safetensors"),
               "--dump-grads", os.path.join(work, "grads.safetensors"), *args.run_flag]
    for cmd in (compile_cmd, run_cmd):
        p = subprocess.run(cmd, capture_output=True, text=True, timeout=args.timeout)
        if p.returncode:
            return [f"exit {p.returncode}: {' '.join(cmd)}\n    " + "\n    ".join((p.stderr or p.stdout).splitlines()[-12:])]
    bad = []
    losses = read_losses(os.path.join(work, "log.jsonl"))
    if len(losses) != 5:
        bad.append(f"{len(losses)} losses in the log, 5 expected")
    rate = manifest["hyperparameters"]["R"]
    step_error = (manifest["optimizer_step_max_abs_error_vs_onnx_reference_evaluator"] or 0) / rate
    for i, (got, want) in enumerate(zip(losses, manifest["losses"])):
        if not abs(got - want) <= 3e-6 * abs(want) + step_error * abs(want - manifest["losses"][0]):
            bad.append(f"loss before step {i + 1}: {got}, expected {want}")
    grads = read_safetensors(os.path.join(work, "grads.safetensors"))
    for key, want in reference.items():
        if key.startswith("grad/"):
            got = grads.get(key[len("grad/"):])
            if got is None or got.shape != want.shape:
                bad.append(f"no gradient {key} of shape {want.shape}")
            elif not l2(got - want) <= 1e-5 * max(l2(want), 1e-30):
                bad.append(f"{key}: relative difference {l2(got - want) / l2(want):.3g}")
    weights = read_safetensors(os.path.join(work, "weights.safetensors"))
    for key, want in reference.items():
        if not key.startswith("after/"):
            continue
        name = key[len("after/"):]
        got = weights.get(name)
        # Scalars are stored as one element in the reference.
        if got is None or got.size != want.size or got.dtype != want.dtype:
            bad.append(f"{name} ({want.dtype} {want.shape}) is not among the saved weights")
            continue
        got = got.reshape(want.shape)
        if want.dtype.kind == "i":
            if not np.array_equal(got, want):
                bad.append(f"{name}: {got}, expected {want}")
            continue
        gradient = reference.get("grad/" + name)
        if manifest["optimizer"] == "Adam" and gradient is not None:
            noise = (gradient != 0) & (np.abs(gradient) < 1e-6 * np.abs(gradient).max())
            if (np.abs(got - want)[noise] > 2 * 5 * rate).any():
                bad.append(f"{name} after 5 steps: moved by more than {5 * rate} without a gradient")
            got, want = got[~noise], want[~noise]
        if not l2(got - want) <= 2e-5 * max(l2(want), 1e-30):
            bad.append(f"{name} after 5 steps: relative difference {l2(got - want) / max(l2(want), 1e-30):.3g}")
    return bad


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--compile-flag", action="append", default=[])
    ap.add_argument("--run-flag", action="append", default=[])
    ap.add_argument("--timeout", type=float, default=300)
    ap.add_argument("model", nargs="+")
    args = ap.parse_args()
    failed = 0
    for model in args.model:
        work = tempfile.mkdtemp(prefix="training-info-")
        try:
            bad = run(args, model, work)
        finally:
            shutil.rmtree(work)
        failed += bool(bad)
        print(("FAIL " if bad else "ok   ") + os.path.basename(model))
        for line in bad[:8]:
            print("    " + line)
    print(f"{len(args.model) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
