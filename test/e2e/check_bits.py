#!/usr/bin/env python3
"""Equal numerics_key, equal bits: compiles one model in many ways and compares trained weights.

    check_bits.py --harmonyc build/bin/harmonyc --microbatch U [--target host:avx2] MODEL_DIR

The microbatch size is pinned, since it is in the key. Every variant must have the key of the plain
one (no limit), and after five steps the same losses, first gradients and weights, bit for bit.
"""
import argparse, json, os, shutil, subprocess, sys, tempfile

import numpy as np

from check_golden import read_losses, read_safetensors


def call(cmd, expected=0):
    p = subprocess.run(cmd, capture_output=True, text=True, timeout=600)
    if p.returncode != expected:
        raise RuntimeError(f"exit {p.returncode}, expected {expected}: {' '.join(cmd)}\n{p.stderr[-2000:]}")
    return p


def train(exe, work, flags):
    """Losses, gradients and weights after five steps, as bytes."""
    out = os.path.join(work, "out")
    os.makedirs(out, exist_ok=True)
    p = call([exe, "--data", os.path.join(work, "data.npz"), "--steps", "5", "--no-shuffle", "--lr", "1e-3",
              "--log", out + "/log.jsonl", "--save", out + "/weights.safetensors",
              "--dump-grads", out + "/grads.safetensors", *flags])
    arrays = {**read_safetensors(out + "/weights.safetensors"),
              **{"grad " + k: v for k, v in read_safetensors(out + "/grads.safetensors").items()}}
    result = {k: v.tobytes() for k, v in arrays.items()}
    result["losses"] = repr(read_losses(out + "/log.jsonl"))
    shutil.rmtree(out)
    return result, p.stdout + p.stderr


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--microbatch", required=True)
    ap.add_argument("--target", default="host")
    ap.add_argument("--optimizer", default="adamw")
    ap.add_argument("model_dir")
    args = ap.parse_args()
    manifest = json.load(open(os.path.join(args.model_dir, "manifest.json")))
    golden = read_safetensors(os.path.join(args.model_dir, "golden.safetensors"))
    work = tempfile.mkdtemp(prefix="bits-")
    np.savez(os.path.join(work, "data.npz"),
             **{k[len("input/"):]: v for k, v in golden.items() if k.startswith("input/")})
    common = [os.path.join(args.model_dir, "train.onnx"), "--batch", str(manifest["batch"]),
              "--microbatch", args.microbatch, "--target", args.target, "--optimizer", args.optimizer]

    def compile_variant(flags):
        exe, plan = os.path.join(work, "train"), os.path.join(work, "plan.json")
        call([args.harmonyc, "compile", *common, "-o", exe, "--plan-out", plan, *flags])
        return exe, json.load(open(plan))["summary"]

    exe, plain = compile_variant([])
    least, peak = plain["min_device_bytes"], plain["peak_bytes"][0]
    capacities = sorted({least, (least * 2 + peak) // 3, (least + 2 * peak) // 3})
    variants = [(["--device-memory", str(c)], []) for c in capacities]
    variants += [(flags, []) for flags in (
        ["--residency", "none"], ["--recompute", "all"], ["--recompute", "none"], ["--pack", "1"], ["--pack", "2"],
        ["--update", "deferred"], ["--optimizer-on", "host"], ["--optimizer-on", "device"])]
    # Threads, with chunks of one index: every worker must be seen to run some.
    runs = [["--threads", "1"], ["--threads", "2", "--chunk", "1"], ["--threads", "3", "--chunk", "1"], ["--poison"], ["--paranoid"],
            ["--count-allocations"]]
    variants += [(["--device-memory", str(least)], run) for run in runs[1:]] + [([], run) for run in runs]
    reference, _ = train(exe, work, [])
    failed = 0
    swaps = 0
    for compile_flags, run_flags in variants:
        label = " ".join(compile_flags + run_flags) or "plain"
        try:
            exe, summary = compile_variant(compile_flags)
            if summary["numerics_key"] != plain["numerics_key"]:
                raise RuntimeError(f"key {summary['numerics_key']}, expected {plain['numerics_key']}")
            swaps += summary["swap_in_bytes"] > 0
            result, output = train(exe, work, run_flags)
            different = sorted(k for k in reference if result.get(k) != reference[k])
            if different or result.keys() != reference.keys():
                raise RuntimeError(f"{len(different)} of {len(reference)} differ, first {different[:3]}")
            if "--chunk" in run_flags:
                counts = [line.split(":")[1].split() for line in output.splitlines() if "workers of device" in line]
                if not counts or any(int(n) == 0 for line in counts for n in line):
                    raise RuntimeError(f"not every worker ran: {counts or 'no counts printed'}")
            print(f"ok   {label}")
        except RuntimeError as error:
            failed += 1
            print(f"FAIL {label}: {error}")
    if not swaps:
        failed += 1
        print("FAIL no variant swaps: the comparison shows nothing")
    # One byte less than the least has no plan, and the refusal says so in numbers.
    try:
        p = call([args.harmonyc, "compile", *common, "-o", os.path.join(work, "none"), "--device-memory", str(least - 1)], expected=3)
        if str(least) not in p.stderr:
            raise RuntimeError(f"the refusal does not name {least}: {p.stderr}")
        print("ok   one byte below the least is refused")
    except RuntimeError as error:
        failed += 1
        print(f"FAIL {error}")
    shutil.rmtree(work)
    print(f"{len(variants) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
