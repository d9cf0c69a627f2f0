#!/usr/bin/env python3
"""Check RandomNormalLike and RandomUniformLike: moments, seeds, and that microbatches and plans do not change them.

    check_noise.py --harmonyc build/bin/harmonyc

The loss is the mean of (x * w + noise) ** p with x = 0 or w = 1: its expectation is a moment of the noise. Evaluation
takes the mean of the noise.
"""
import argparse, math, sys, tempfile

import numpy as np

from check_dropout import Runs
from check_golden import read_safetensors

BATCH, WIDTH = 8, 4096
NORMAL = ("RandomNormalLike <mean = 0.5, scale = 2.0> (h)", 0.5, lambda p: {1: 0.5, 2: 4.25, 4: 3 * 16 + 6 * 4 / 4 + 1 / 16}[p])
UNIFORM = ("RandomUniformLike <low = -1.0, high = 3.0> (h)", 1, lambda p: (3 ** (p + 1) - (-1) ** (p + 1)) / (4 * (p + 1)))
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
noise (float[N, {width}] x) => (float loss, float[N, {width}] z)
<float[1] w = {{1}}, float p = {{{power}.0}}>
{{
  h = Mul (x, w)
  e = {noise}
  z = Add (h, e)
  q = Pow (z, p)
  loss = ReduceMean <keepdims = 0> (q)
}}
"""


def check(runs, noise, mean, moment):
    bad = []
    data = runs.path("data.npz")
    np.savez(data, x=np.zeros((BATCH, WIDTH), np.float32))

    def train(*flags, seed=7):
        return runs.train(model, BATCH, data, ["--optimizer=sgd", *flags], ["--lr", 0, "--seed", seed], steps=3)[0]
    for power in (1, 2, 4):
        model = runs.path(f"m{power}.onnxtext")
        with open(model, "w") as f:
            f.write(MODEL.format(width=WIDTH, power=power, noise=noise))
        losses, expected = train(), moment(power)
        spread = math.sqrt((moment(2 * power) - expected ** 2) / (BATCH * WIDTH)) if power < 4 else expected * 0.02
        if not (np.abs(np.array(losses) - expected) < 5 * spread).all() or len(set(losses)) < 3:
            bad.append(f"{noise}, power {power}: losses {losses}, expected {expected} +- {spread:.3g}")
    if train() != losses:
        bad.append("the same seed gives other losses")
    if set(train(seed=8)) & set(losses):
        bad.append("another seed gives the same losses")
    for flags in (["--microbatch=1"], ["--microbatch=3"], ["--recompute=all"],
                  ["--devices=2", "--schedule=harmony-dp"]):
        other = train(*flags)
        if not np.allclose(other, losses, rtol=2e-6, atol=0):
            bad.append(f"{flags}: losses {other}, expected {losses}")
    exe = runs.path(f"exe{next(runs.numbers) - 1}")
    runs.call(exe, "--val", data, "--eval-only", "--outputs", runs.path("outputs"))
    if not (read_safetensors(runs.path("outputs"))["z"] == mean).all():
        bad.append("evaluation is random")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harmonyc", required=True)
    args = parser.parse_args()
    bad = []
    for noise in (NORMAL, UNIFORM):
        with tempfile.TemporaryDirectory(prefix="noise-") as folder:
            bad += check(Runs(args.harmonyc, folder), *noise)
    print("\n".join(bad) or "ok")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
