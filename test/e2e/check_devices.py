#!/usr/bin/env python3
"""Golden models on several devices: check_golden.py for every number of devices and form of the schedule.

    check_devices.py --harmonyc build/bin/harmonyc [--devices 1,2,3,4,8] [--schedules harmony-pp,harmony-dp]
                     [--optimizer adamw|sgd] [--write docs/Schedules.md] MODEL_DIR ...

The devices together have half of the training state, or each has the least for which there is a plan where that is
more. Prints a table with the reason for each that is above one half; --write puts it between the markers of a file.
Needs numpy alone.
"""
import argparse, re, sys

import check_golden
from training import Model

MARKERS = ("<!-- table of check_devices.py -->", "<!-- end of table -->")


def reason(summary, share):
    """Why the least plan of one device needs more than its share of one half."""
    largest, least = summary["bound_bytes"], summary["min_device_bytes"]
    if share < largest <= least:
        return f"one layer alone has {largest} bytes live, the share is {share}"
    return f"packs of one layer that keep nothing need {least} bytes, the share is {share}"


def check(args, model, devices, schedule):
    """One row of the table, and complaints."""
    flags = ["--devices", str(devices), "--schedule", schedule]
    plan, why, memory = model.plan(*flags, "--device-memory", "50%"), "", 50
    if plan:
        flags += ["--device-memory", "50%"]
    else:
        least = model.plan(*flags)["summary"]["min_device_bytes"]
        flags += ["--device-memory", str(least)]
        plan = model.plan(*flags)
        if not plan:
            return None, [f"no plan in the least memory, {least} bytes"]
        share = int(re.search(r"has (\d+) bytes", model.refusal)[1])
        why, memory = reason(plan["summary"], share), 50 * least / share
    summary = plan["summary"]
    golden = argparse.Namespace(harmonyc=args.harmonyc, optimizer=args.optimizer, compile_flag=flags,
                                run_flag=["--poison"], model_file="train.onnx", frozen=None, factor=3.0, timeout=300)
    bad = check_golden.run(golden, model.folder, model.work)
    row = [model.name, devices, schedule, f"{memory:.0f} %", max(summary["peak_bytes"]),
           summary["swap_in_bytes"] + summary["swap_out_bytes"], summary["peer_bytes"], why]
    return row, bad


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--optimizer", default="adamw", choices=["adamw", "sgd"])
    ap.add_argument("--devices", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 3, 4, 8])
    ap.add_argument("--schedules", type=lambda text: text.split(","), default=["harmony-pp", "harmony-dp"])
    ap.add_argument("--write", metavar="FILE")
    ap.add_argument("model_dir", nargs="+")
    args = ap.parse_args()
    lines = ["| model | devices | schedule | memory of all devices, of the training state | highest peak, bytes | "
             "swapped a step, bytes | between devices, bytes | why more than one half |", "|---" * 8 + "|"]
    print("\n".join(lines))
    passed = failed = 0
    for folder in args.model_dir:
        with Model(args.harmonyc, folder, args.optimizer) as model:
            for devices in args.devices:
                for schedule in args.schedules:
                    row, bad = check(args, model, devices, schedule)
                    if row:
                        lines.append("| " + " | ".join(map(str, row)) + " |")
                        print(lines[-1], flush=True)
                    if bad:
                        print(f"FAIL {model.name} on {devices} devices, {schedule}")
                        print("\n".join("    " + line for line in bad[:8]), flush=True)
                    passed, failed = passed + (not bad), failed + bool(bad)
    if args.write and not failed:
        with open(args.write) as f:
            before, rest = f.read().split(MARKERS[0])
        after = rest.split(MARKERS[1])[1]
        with open(args.write, "w") as f:
            f.write(f"{before}{MARKERS[0]}\n" + "\n".join(lines) + f"\n{MARKERS[1]}{after}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
