#!/usr/bin/env python3
"""Check clipping by the global norm of gradients (compile --clip-grad-norm) against its definition.

    check_clip.py --harmonyc build/bin/harmonyc [--compile-flag=FLAG ...] MODEL_DIR

One step of SGD without momentum at thresholds below and above the norm: the weights move by lr * min(1, threshold / (norm
+ 1e-6)) times the gradients that --dump-grads writes, and the log holds their norm. Five steps of AdamW with a threshold
that is never reached give the bits of an executable that does not clip.
"""
import argparse, json, os, subprocess, sys, tempfile

import numpy as np

from check_golden import l2, read_safetensors


def call(command, expected=0):
    p = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    if p.returncode != expected:
        sys.exit(f"exit {p.returncode}, expected {expected}: {' '.join(map(str, command))}\n{p.stderr or p.stdout}")
    return p


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harmonyc", required=True)
    parser.add_argument("--compile-flag", action="append", default=[])
    parser.add_argument("model")
    args = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory(prefix="clip-") as work:
        path = lambda name: os.path.join(work, name)
        golden = read_safetensors(os.path.join(args.model, "golden.safetensors"))
        batch = json.load(open(os.path.join(args.model, "manifest.json")))["batch"]
        np.savez(path("data.npz"), **{k[len("input/"):]: v for k, v in golden.items() if k.startswith("input/")})

        def compile(exe, *flags):
            call([args.harmonyc, "compile", os.path.join(args.model, "train.onnx"), "-o", path(exe), "--batch", batch,
                  *args.compile_flag, *flags])

        def train(exe, *flags):
            call([path(exe), "--data", path("data.npz"), "--no-shuffle", "--save", path("weights"), "--log",
                  path("log"), *flags])
            return read_safetensors(path("weights")), [json.loads(line) for line in open(path("log"))]

        compile("sgd", "--optimizer", "sgd", "--clip-grad-norm")
        rate = 0.5
        start, _ = train("sgd", "--steps", 1, "--lr", 0)
        for threshold in (0, 0.01, 1e6):
            after, log = train("sgd", "--steps", 1, "--lr", rate, "--momentum", 0, "--clip-grad-norm", threshold,
                               "--dump-grads", path("grads"))
            grads = read_safetensors(path("grads"))
            norm = float(np.sqrt(sum(l2(g) ** 2 for g in grads.values())))
            if not abs(log[0]["grad_norm"] - norm) <= 1e-6 * norm:
                bad.append(f"grad_norm {log[0]['grad_norm']}, expected {norm}")
            factor = min(1, threshold / (norm + 1e-6))
            for name, gradient in grads.items():
                moved = start[name].astype(np.float64) - after[name]
                wanted = rate * factor * gradient.astype(np.float64)
                # Subtracting rounds to the weight's digits.
                if not (np.abs(moved - wanted) <= 2e-7 * np.abs(start[name]) + 2e-6 * np.abs(wanted) + 1e-9).all():
                    bad.append(f"threshold {threshold}: '{name}' moved by {l2(moved)}, expected {l2(wanted)}")
        compile("clips", "--clip-grad-norm")
        compile("plain", "--update", "deferred")
        (clipped, log), (plain, reference) = (train("clips", "--steps", 5, "--clip-grad-norm", 1e9),
                                              train("plain", "--steps", 5))
        if any("grad_norm" not in step for step in log) or "grad_norm" in reference[0]:
            bad.append("grad_norm belongs into the log of the executable that clips, and only there")
        bad += [f"'{name}' differs without clipping" for name in plain
                if plain[name].tobytes() != clipped[name].tobytes()]
        if "compiled without it" not in call([path("plain"), "--synthetic", "--steps", 1, "--clip-grad-norm", 1],
                                             expected=2).stderr:
            bad.append("the flag is accepted where it was not compiled for")
    print("\n".join(bad) or "ok")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
