#!/usr/bin/env python3
"""Running statistics, their formulas and the splitting of batches, against NumPy.

    check_batch_norm.py --harmonyc build/bin/harmonyc

Two steps of a product and a batch normalisation whose running statistics move; the batch whole, and split into
microbatches that are normalised on their own, on one device and on two, in little memory and in much. Evaluation
normalises by the running statistics.
Needs numpy alone.
"""
import argparse, json, os, subprocess, sys, tempfile
import numpy as np

from check_golden import read_losses, read_safetensors

BATCH, CHANNELS, MOMENTUM, EPSILON = 12, 3, 0.75, 0.01
MODEL = """<ir_version: 8, opset_import: ["" : 15]>
main (float[N, 4] x) => (float loss)
<float[4, 3] w = {%s}, float[3] scale = {1.0, 2.0, -1.0}, float[3] shift = {0.0, 0.5, 1.0},
 float[3] mean = {0.5, -1.0, 2.0}, float[3] variance = {0.5, 2.0, 1.25}>
{ h = MatMul (x, w)
  y, mean1, variance1 = BatchNormalization <training_mode = 1, momentum = 0.75, epsilon = 0.01>
    (h, scale, shift, mean, variance)
  z = Tanh (y)
  loss = ReduceMean <keepdims = 0> (z) }
"""


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def move(rows, statistics, unbiased):
    """The running statistics behind one microbatch."""
    n = len(rows)
    variance = rows.var(axis=0) * (n / (n - 1) if unbiased and n > 1 else 1)
    return [MOMENTUM * old + (1 - MOMENTUM) * new for old, new in zip(statistics, (rows.mean(axis=0), variance))]


def normalized_loss(rows, mean, variance):
    y = (rows - mean) / np.sqrt(variance + EPSILON) * np.array([1, 2, -1]) + np.array([0, 0.5, 1])
    return float(np.tanh(y).mean())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    args = ap.parse_args()
    random = np.random.default_rng(5)
    weights = random.normal(size=(4, CHANNELS)).astype(np.float32)
    x = random.normal(1, 2, size=(BATCH, 4)).astype(np.float32)
    rows = (x.astype(np.float64) @ weights).reshape(BATCH, CHANNELS)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="norm-") as work:
        path = lambda name: os.path.join(work, name)
        with open(path("model.onnxtext"), "w") as f:
            f.write(MODEL % ", ".join(f"{v:.9f}" for v in weights.ravel()))
        np.savez(path("data.npz"), x=x)

        def check(microbatch, unbiased, *flags):
            """Complaints about statistics after two steps at rate 0, the first loss, and the loss in evaluation."""
            name = " ".join(["whole batch" if microbatch == BATCH else f"microbatches of {microbatch}", *flags])
            exe = path("train")
            p = run([args.harmonyc, "compile", path("model.onnxtext"), "-o", exe, "--batch", str(BATCH),
                     "--optimizer", "sgd", *flags])
            if p.returncode:
                return [f"{name}: {p.stderr}"]
            if (microbatch < BATCH) != ("-mixed" in run([exe, "--print-plan"]).stdout):
                return [f"{name}: the plan does not say whether samples are mixed"]
            p = run([exe, "--data", path("data.npz"), "--steps", "2", "--no-shuffle", "--lr", "0", "--weight-decay", "0",
                     "--log", path("log"), "--save", path("end.safetensors"), "--poison"])
            if p.returncode:
                return [f"{name}: {p.stderr}"]
            got, losses = read_safetensors(path("end.safetensors")), read_losses(path("log"))
            statistics = [np.array([0.5, -1, 2]), np.array([0.5, 2, 1.25])]
            parts = [rows[i:i + microbatch] for i in range(0, BATCH, microbatch)]
            loss = sum(normalized_loss(part, part.mean(axis=0), part.var(axis=0)) * len(part) / BATCH for part in parts)
            for part in parts * 2:
                statistics = move(part, statistics, unbiased)
            bad = [f"{name}: {key} is {got[key]}, expected {want}" for key, want in zip(("mean", "variance"), statistics)
                   if not np.allclose(got[key], want, rtol=1e-5, atol=1e-6)]
            if abs(losses[0] - loss) > 1e-5:
                bad.append(f"{name}: the loss is {losses[0]}, expected {loss}")
            p = run([exe, "--val", path("data.npz"), "--eval-only", "--log", path("eval"), "--poison"])
            if p.returncode:
                return bad + [f"{name}: evaluation: {p.stderr}"]
            with open(path("eval")) as f:
                evaluated = json.loads(f.readline())["eval_loss"]
            want = normalized_loss(rows, np.array([0.5, -1, 2]), np.array([0.5, 2, 1.25]))
            if abs(evaluated - want) > 1e-5:
                bad.append(f"{name}: the loss in evaluation is {evaluated}, expected {want}")
            return bad

        least = run([args.harmonyc, "plan", path("model.onnxtext"), "--batch", str(BATCH), "--optimizer", "sgd"])
        least = least.stdout.split("least device memory: ")[1].split()[0]
        mixing = "--allow-batch-mixing"
        for microbatch, unbiased, *flags in (
                (BATCH, True), (BATCH, True, "--bn-running-var", "torch"), (BATCH, False, "--bn-running-var", "onnx"),
                (BATCH, True, "--device-memory", least), (BATCH, True, "--recompute", "all", "--residency", "none"),
                (BATCH, True, "--devices", "2"), (BATCH, True, mixing, "--microbatch", str(BATCH)),
                (4, True, mixing, "--microbatch", "4"), (5, False, mixing, "--microbatch", "5", "--bn-running-var", "onnx"),
                (4, True, mixing, "--microbatch", "4", "--recompute", "all", "--residency", "none"),
                (1, True, mixing, "--microbatch", "1", "--residency", "none"),
                (3, True, mixing, "--microbatch", "3", "--devices", "2", "--schedule", "harmony-dp"),
                (2, True, mixing, "--microbatch", "2", "--devices", "2", "--schedule", "harmony-dp", "--residency", "none")):
            bad = check(microbatch, unbiased, *flags)
            failed += bool(bad)
            print("\n".join(bad) if bad else f"ok   {microbatch} {' '.join(flags)}", flush=True)
    print("failed" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
