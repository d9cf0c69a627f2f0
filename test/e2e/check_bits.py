#!/usr/bin/env python3
"""Equal numerics_key, equal bits: compiles one model in many ways and compares trained weights.

    check_bits.py --harmonyc build/bin/harmonyc --microbatch U [--target host:avx2] [--devices N,N,..] MODEL_DIR

The microbatch size is pinned, since it is in the key. Every variant, pipelines over several devices among them, must
have the key of the plain one (one device, no limit), and after five steps the same losses, first gradients and
weights, bit for bit. What a run moves and how high it reaches in each device must be what its plan says.
"""
import argparse, sys

from training import DOES_NOT_FIT, Model, call, require_equal


def variants_of(model, plain, devices):
    """Pairs of flags: of the compiler, of the executable."""
    least, peak = plain["min_device_bytes"], plain["peak_bytes"][0]
    capacities = sorted({least, (least * 2 + peak) // 3, (least + 2 * peak) // 3})
    variants = [(["--device-memory", str(c)], []) for c in capacities]
    variants += [(flags, []) for flags in (
        ["--residency", "none"], ["--recompute", "all"], ["--recompute", "none"], ["--pack", "1"], ["--pack", "2"],
        ["--update", "deferred"], ["--optimizer-on", "host"], ["--optimizer-on", "device"])]
    # Threads, with chunks of one index: every worker must be seen to run some.
    runs = [["--threads", "1"], ["--threads", "2", "--chunk", "1"], ["--threads", "3", "--chunk", "1"], ["--poison"],
            ["--paranoid"], ["--count-allocations"]]
    variants += [(["--device-memory", str(least)], run) for run in runs[1:]] + [([], run) for run in runs]
    for count in devices:
        flags = ["--devices", str(count), "--schedule", "harmony-pp"]
        least = model.plan(*flags)["summary"]["min_device_bytes"]
        variants += [(flags, []), (flags + ["--device-memory", str(least)], ["--poison"]),
                     (flags + ["--recompute", "none"], []), (flags + ["--pack", "1", "--residency", "none"], [])]
    return variants


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--microbatch", required=True)
    ap.add_argument("--target", default="host")
    ap.add_argument("--optimizer", default="adamw")
    ap.add_argument("--devices", type=lambda text: [int(n) for n in text.split(",")], default=[])
    ap.add_argument("model_dir")
    args = ap.parse_args()
    failed = swaps = 0
    with Model(args.harmonyc, args.model_dir, args.optimizer, args.target) as model:
        model.flags += ["--microbatch", args.microbatch]
        exe, plan = model.compile()
        plain = plan["summary"]
        reference, _ = model.train(exe)
        variants = variants_of(model, plain, args.devices)
        for compile_flags, run_flags in variants:
            label = " ".join(compile_flags + run_flags) or "plain"
            try:
                exe, plan = model.compile(*compile_flags)
                summary = plan["summary"]
                if summary["numerics_key"] != plain["numerics_key"]:
                    raise RuntimeError(f"key {summary['numerics_key']}, expected {plain['numerics_key']}")
                swaps += summary["swap_in_bytes"] > 0
                result, output = model.train(exe, *run_flags)
                require_equal(reference, result)
                model.check_evidence(summary)
                if "--chunk" in run_flags:
                    counts = [line.split(":")[1].split() for line in output.splitlines() if "workers of pool" in line]
                    if not counts or any(int(n) == 0 for line in counts for n in line):
                        raise RuntimeError(f"not every worker ran: {counts or 'no counts printed'}")
                print(f"ok   {label}")
            except RuntimeError as error:
                failed += 1
                print(f"FAIL {label}\n    {error}")
        if not swaps:
            failed += 1
            print("FAIL no variant swaps: the comparison shows nothing")
        # One byte less than the least has no plan, and the refusal says so in numbers.
        least = plain["min_device_bytes"]
        try:
            p = call([args.harmonyc, "compile", *model.flags, "-o", model.path("none"), "--device-memory",
                      str(least - 1)], expected=DOES_NOT_FIT)
            if str(least) not in p.stderr:
                raise RuntimeError(f"the refusal does not name {least}: {p.stderr}")
            print("ok   one byte below the least is refused")
        except RuntimeError as error:
            failed += 1
            print(f"FAIL {error}")
    print(f"{len(variants) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
