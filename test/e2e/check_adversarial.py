#!/usr/bin/env python3
"""Any legal order and delay of the queues: equal bits.

    check_adversarial.py --harmonyc build/bin/harmonyc [--seeds 0:20] [--long] [--flag=FLAG ...] MODEL_DIR ...

Compiles each model for three devices in their least memory, as a pipeline and data parallel, and runs five steps under
`--adversarial SEED` for every seed. Losses, first gradients and weights must be those of the ordinary run, bit for
bit. --long: 1,000 seeds.
"""
import argparse, sys, time

from training import Model, require_equal


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--seeds", type=lambda text: range(*map(int, text.split(":"))), default=range(20))
    ap.add_argument("--long", action="store_true")
    ap.add_argument("--flag", action="append", default=[], help="of the compiler")
    ap.add_argument("model_dir", nargs="+")
    args = ap.parse_args()
    seeds = range(1000) if args.long else args.seeds
    passed = failed = 0
    for folder in args.model_dir:
        with Model(args.harmonyc, folder) as model:
            for schedule in ("harmony-pp", "harmony-dp"):
                begin = time.time()
                flags = ["--devices", "3", "--schedule", schedule, *args.flag]
                least = model.plan(*flags)["summary"]["min_device_bytes"]
                exe, _ = model.compile(*flags, "--device-memory", str(least))
                reference, _ = model.train(exe)
                for seed in seeds:
                    try:
                        result, _ = model.train(exe, "--adversarial", seed)
                        require_equal(reference, result)
                        passed += 1
                    except RuntimeError as error:
                        failed += 1
                        print(f"FAIL {model.name} {schedule} --adversarial {seed}\n    {error}", flush=True)
                print(f"{model.name} {schedule}: {len(seeds)} seeds, {time.time() - begin:.0f} s", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
