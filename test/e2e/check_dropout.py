#!/usr/bin/env python3
"""Check that dropout is random where it should be and nowhere else.

    check_dropout.py --harmonyc build/bin/harmonyc DROPOUT.onnxtext [--model TRAIN.onnx --data DATA.npz --batch N]

DROPOUT.onnxtext is the mean of the product of two dropouts (ratio 0.25) of x * w, w = 1: with x = 1 its expectation is 1
if the masks are independent and scaled as they should be. Checked: mean and spread, other masks in other steps, samples,
operators and for other seeds; the same ones whatever the microbatch; the gradient, which is twice the loss; evaluation,
which drops nothing. With --model: five steps on the same data give equal bits whether values are kept or recomputed,
weights resident or swapped, and layers on one device or three; and equal losses to rounding for other microbatches and
for replicas.
"""
import argparse, itertools, os, subprocess, sys, tempfile

import numpy as np

from check_golden import read_losses, read_safetensors


class Runs:
    def __init__(self, harmonyc, folder):
        self.harmonyc, self.folder, self.numbers = harmonyc, folder, itertools.count()

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *command):
        p = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
        if p.returncode:
            sys.exit(f"exit {p.returncode}: {' '.join(map(str, command))}\n{p.stderr or p.stdout}")
        return p

    def train(self, model, batch, data, flags=(), run_flags=(), steps=5):
        """Losses, gradients of the first step and weights after the last."""
        exe = self.path(f"exe{next(self.numbers)}")
        self.call(self.harmonyc, "compile", model, "-o", exe, "--batch", batch, *flags)
        self.call(exe, "--data", data, "--steps", steps, "--no-shuffle", "--log", self.path("log"), "--save",
                  self.path("weights"), "--dump-grads", self.path("grads"), *run_flags)
        losses = read_losses(self.path("log"))
        os.remove(self.path("log"))
        return losses, read_safetensors(self.path("grads")), read_safetensors(self.path("weights"))


def same_bits(a, b):
    return a.keys() == b.keys() and all(a[k].tobytes() == b[k].tobytes() for k in a)


def check_statistics(runs, model):
    batch, width, kept = 24, 4096, 0.75
    data = runs.path("ones.npz")
    np.savez(data, x=np.ones((batch, width), np.float32))
    bad = []

    def train(*flags, seed=7):
        return runs.train(model, batch, data, ["--optimizer", "sgd", *flags],
                          ["--lr", 0, "--seed", seed], steps=8)

    losses, grads, _ = train()
    # The product is 1 / kept^2 with probability kept^2: its variance is 1 / kept^2 - 1.
    deviation = np.sqrt((1 / kept ** 2 - 1) / (batch * width))
    z = (np.array(losses) - 1) / deviation
    if not (abs(z) < 5).all() or not 0.2 < np.sqrt((z ** 2).mean()) < 2.5:
        bad.append(f"losses {losses}: expected 1 +- {deviation:.3g}")
    if len(set(losses)) != len(losses):
        bad.append(f"equal losses in different steps: {losses}")
    if not abs(grads["w"][0] - 2 * losses[0]) < 1e-5:
        bad.append(f"gradient {grads['w'][0]}, expected twice the loss {losses[0]}")
    if train()[0] != losses:
        bad.append("the same seed gives other losses")
    if set(train(seed=8)[0]) & set(losses):
        bad.append("another seed gives the same losses")
    for microbatch in (1, 5, 8):
        other = train(f"--microbatch={microbatch}")[0]
        if not np.allclose(other, losses, rtol=2e-6, atol=0):
            bad.append(f"microbatch {microbatch}: losses {other}, expected {losses}")
    # One sample at a time: what each adds is its own.
    single = runs.path("single.npz")
    np.savez(single, x=np.concatenate([np.ones((1, width)), np.zeros((batch - 1, width))]).astype(np.float32))
    moved = runs.path("moved.npz")
    np.savez(moved, x=np.concatenate([np.zeros((1, width)), np.ones((1, width)),
                                      np.zeros((batch - 2, width))]).astype(np.float32))
    first, second = (runs.train(model, batch, d, ["--optimizer", "sgd"], ["--lr", 0, "--seed", 7], steps=2)[0]
                     for d in (single, moved))
    if set(first) & set(second):
        bad.append(f"two samples have the same mask: {first}, {second}")
    exe = runs.path(f"exe{next(runs.numbers) - 1}")
    text = runs.call(exe, "--val", data, "--eval-only", "--outputs", runs.path("outputs")).stdout
    outputs = read_safetensors(runs.path("outputs"))["y"]
    if not (outputs == 1).all():
        bad.append(f"evaluation drops something: {text}")
    return bad


def check_model(runs, model, data, batch):
    bad = []
    losses, grads, weights = runs.train(model, batch, data, ["--recompute=none", "--microbatch=2"])
    for flags in (["--recompute=all"], ["--recompute=all", "--residency=none", "--pack=1"],
                  ["--devices=3", "--schedule=harmony-pp", "--recompute=all", "--pack=1"]):
        other = runs.train(model, batch, data, [*flags, "--microbatch=2"])
        if other[0] != losses or not same_bits(other[1], grads) or not same_bits(other[2], weights):
            bad.append(f"{flags}: other bits; losses {other[0]}, expected {losses}")
    for flags in (["--microbatch=1"], ["--microbatch=3"], ["--devices=2", "--schedule=harmony-dp"]):
        other = runs.train(model, batch, data, flags)
        if not np.allclose(other[0], losses, rtol=2e-5, atol=0):
            bad.append(f"{flags}: losses {other[0]}, expected {losses}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harmonyc", required=True)
    parser.add_argument("statistics")
    parser.add_argument("--model")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dropout-") as folder:
        runs = Runs(args.harmonyc, folder)
        bad = check_statistics(runs, args.statistics)
        if args.model:
            data, batch = runs.path("data.npz"), 4
            draw = np.random.default_rng(1).integers
            np.savez(data, input_ids=draw(0, 128, (batch, 16)), attention_mask=np.ones((batch, 16), np.int64),
                     token_type_ids=np.zeros((batch, 16), np.int64), labels=draw(0, 3, (batch,)))
            bad += check_model(runs, args.model, data, batch)
    print("\n".join(bad) or "ok")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
