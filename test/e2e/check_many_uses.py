#!/usr/bin/env python3
"""A weight with more uses than a launch has operands: 50 layers of one weight, as a deep equilibrium model unrolled.

    check_many_uses.py --harmonyc build/bin/harmonyc

Trains it with SGD, SGD clipped by the gradient's norm, and AdamW on one device and as two groups, updated by host and device, and compares losses and the
weight after three steps with numpy in double precision. The parts of the gradient, one for every use and group, are
more than one kernel can read.
"""
import argparse, pathlib, sys, tempfile

import numpy

from check_golden import read_losses, read_safetensors
from training import call

USES, WIDTH, BATCH, STEPS, RATE, NORM = 50, 8, 4, 3, 0.01, 1
# Losses and weights are about 1, and in f32 fifty layers deep.
TOLERANCE = 2e-5


def weight():
    random = numpy.random.default_rng(3)
    return (numpy.eye(WIDTH) + 0.05 * random.standard_normal((WIDTH, WIDTH))).astype("f")


def model():
    values = ", ".join(repr(float(value)) for value in weight().flatten())
    body, state = [], "x"
    for use in range(USES):
        body += [f"p{use} = MatMul({state}, w)", f"t{use} = Tanh(p{use})", f"h{use} = Add(t{use}, x)"]
        state = f"h{use}"
    return ('<ir_version: 9, opset_import: ["" : 20]>\n'
            f"shared (float[N,{WIDTH}] x) => (float[N,{WIDTH}] {state})\n"
            f"<float[{WIDTH},{WIDTH}] w = {{{values}}}>\n{{\n" + "".join(f"  {line}\n" for line in body) + "}\n")


def gradient(w, x, target):
    """The mean squared error and its gradient by w."""
    states = [x]
    for _ in range(USES):
        states.append(numpy.tanh(states[-1] @ w) + x)
    error = states[-1] - target
    passed, total = 2 * error / error.size, numpy.zeros_like(w)
    for before, after in zip(reversed(states[:-1]), reversed(states[1:])):
        inner = passed * (1 - (after - x) ** 2)
        total += before.T @ inner
        passed = inner @ w.T
    return (error ** 2).mean(), total


def reference(optimizer, x, target):
    w, losses = weight().astype("d"), []
    first = second = numpy.zeros_like(w)
    for step in range(1, STEPS + 1):
        loss, g = gradient(w, x, target)
        losses.append(loss)
        if optimizer == "clipped":
            g = g * min(1, NORM / numpy.linalg.norm(g))
        if optimizer != "adamw":
            w = w - RATE * g
            continue
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
        w = w - RATE * first / (1 - 0.9 ** step) / (numpy.sqrt(second / (1 - 0.999 ** step)) + 1e-8)
    return losses, w


def main():
    parser = argparse.ArgumentParser(description="a weight with many uses against numpy")
    parser.add_argument("--harmonyc", type=pathlib.Path, default="harmonyc")
    arguments = parser.parse_args()
    random = numpy.random.default_rng(5)
    x, target = random.standard_normal((2, BATCH, WIDTH)).astype("f")
    worst = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "shared.onnxtext").write_text(model())
        numpy.savez(folder / "data.npz", x=x, target=target)
        for optimizer in ("sgd", "clipped", "adamw"):
            losses, w = reference(optimizer, x.astype("d"), target.astype("d"))
            compiling = {"adamw": ["--optimizer", "adamw"], "sgd": ["--optimizer", "sgd"],
                         "clipped": ["--optimizer", "sgd", "--clip-grad-norm"]}[optimizer]
            training = {"adamw": ["--weight-decay", 0], "sgd": ["--momentum", 0],
                        "clipped": ["--momentum", 0, "--clip-grad-norm", NORM]}[optimizer]
            for place in ("host", "device"):
                for groups in (1, 2):
                    call([arguments.harmonyc, "compile", folder / "shared.onnxtext", "--batch", BATCH, "--loss", "mse",
                          *compiling, "--optimizer-on", place, "--devices", groups, "--schedule", "harmony-dp",
                          "-o", folder / "exe"])
                    log, saved = folder / "log.jsonl", folder / "trained.safetensors"
                    call([folder / "exe", "--data", folder / "data.npz", "--steps", STEPS, "--no-shuffle", "--lr",
                          RATE, *training, "--log", log, "--save", saved])
                    found = read_losses(log)
                    log.unlink()
                    if len(found) != STEPS:
                        sys.exit(f"{len(found)} losses, expected {STEPS}")
                    trained = read_safetensors(saved)["w"]
                    error = max(numpy.abs(numpy.subtract(found, losses)).max(), numpy.abs(trained - w).max())
                    moved = numpy.abs(w - weight()).max()
                    print(f"{optimizer}, updates on the {place}, {groups} groups: off by {error:.1e} at most; "
                          f"the weight moved by {moved:.1e}")
                    if not error < TOLERANCE < moved / 10:
                        sys.exit(f"more than {TOLERANCE} off, or a weight that hardly moved")


if __name__ == "__main__":
    main()
