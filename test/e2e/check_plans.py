#!/usr/bin/env python3
"""Random plans of one model: equal numerics_key, equal bits.

    check_plans.py --harmonyc build/bin/harmonyc [--seeds 0:8] [--long] [--devices 1,2,3,4,8]
                   [--microbatches 1,3,8] MODEL_DIR ...

For each seed a plan is drawn (`--random-plan`): packs, devices, what stays and where, recomputation, rings, place and
order of updates, memory. Its microbatch size is one of a few, it is a pipeline or data parallel, and each size and
number of groups has a plain plan: a device a group, no limit.
The random plan must have the plain one's key and, after five steps, its losses, first gradients and weights, bit for
bit; bytes moved and peaks must be what the plan says. The spread of what was drawn is printed, and each kind must be
in at least a tenth of the plans (updates among Runs, which take several choices at once, in any). --long: 200 seeds a
model.
"""
import argparse, collections, json, random, sys

from training import Model, require_equal


AMONG = "updates among Runs"


def traits(plan, microbatch, batch):
    """The kinds of things that a plan has."""
    phases, events = plan["phases"], plan["events"]
    kinds = {event["kind"] for event in events}
    devices = {phase.get("device", 0) for phase in phases}
    packs = {(phase["firstLayer"], phase["lastLayer"]) for phase in phases if phase["kind"] != "B"}
    updates = {event.get("onHost", False) for event in events if event["kind"] == "Update"}
    backward = [phase for phase in phases if phase["kind"] == "B"]
    resident = {item["object"] for item in plan["load"] if item["content"] == "Tensor"}
    # A B before the last T is of a turn of several packs.
    kinds_of_phases = [phase["kind"] for phase in phases if phase.get("group", 0) == 0]
    while kinds_of_phases[-1] != "T":
        kinds_of_phases.pop()
    found = {
        "several packs": len(packs) > 1,
        "several devices": len(devices) > 1,
        "one microbatch": microbatch == batch,
        "several microbatches": microbatch < batch,
        "a smaller last microbatch": batch % microbatch != 0,
        "swaps of weights": bool(kinds & {"LoadTensor", "StoreTensor", "LoadState", "StoreState"}),
        "swaps of activations": bool(kinds & {"StoreValue", "StoreValueGradient"}),
        "copies between devices": any(kind.startswith("Copy") for kind in kinds),
        "recomputed": any(step["kind"] == "recompute" for phase in backward for step in phase["steps"]),
        "kept": any("keep" in phase for phase in backward),
        "resident weights": any(item["content"] == "Tensor" for item in plan["load"]),
        "updated on the host": True in updates,
        "updated on a device": False in updates,
        "deferred updates": plan["update"] == "deferred",
        "data parallel": plan.get("groups", 1) > 1,
        "gathered weights": any(event["kind"] == "CopyTensor" and event["object"] not in resident for event in events),
        "slices of weights": any("firstByte" in event for event in events),
        "a turn of several packs": "B" in kinds_of_phases,
        AMONG: among_runs(events),
    }
    return {name for name, value in found.items() if value}


def among_runs(events):
    """Whether an update stands between two Runs of one phase on their queue."""
    phase, updated = {}, {}
    for event in events:
        queue = event["queue"]
        if event["kind"] == "Update":
            updated[queue] = True
        elif event["kind"] == "Run":
            if updated.get(queue) and phase.get(queue) == event["phase"]:
                return True
            phase[queue], updated[queue] = event["phase"], False
    return False


def check(args, model):
    """Number of plans and complaints."""
    counts, bad, plans = collections.Counter(), [], 0
    # With a smaller last microbatch and without, down to one sample and up to one microbatch.
    batch = model.batch
    sizes = args.microbatches or sorted({1, 2, min(3, batch), batch // 2, batch - 1, batch})
    references = {}  # by microbatch size and groups, which are in the key
    # By flags: memory between the least and what plain training takes.
    least = {}
    for seed in args.seeds:
        choice = random.Random(seed)
        microbatch, devices = choice.choice(sizes), choice.choice(args.devices)
        groups = choice.choice([1, devices]) if devices <= batch and not args.microbatches else 1
        microbatch = min(microbatch, batch // groups)
        flags = ["--microbatch", str(microbatch), "--devices", str(devices)]
        flags += ["--schedule", "harmony-dp" if groups > 1 else "harmony-pp"]
        if (microbatch, groups) not in references:
            exe, plan = model.compile(*(flags if groups > 1 else flags[:2]))
            references[microbatch, groups] = plan["summary"], model.train(exe)[0]
        if tuple(flags) not in least:
            least[tuple(flags)] = model.plan(*flags)["summary"]["min_device_bytes"]
        low, (plain, reference) = least[tuple(flags)], references[microbatch, groups]
        high = max(low, plain["peak_bytes"][0])
        # Small capacities make the more interesting plans.
        capacity = int(low * (high / low) ** (choice.random() ** 2))
        flags += ["--random-plan", str(seed), "--device-memory", str(capacity)]
        plans += 1
        try:
            exe, plan = model.compile(*flags)
            summary = plan["summary"]
            if summary["numerics_key"] != plain["numerics_key"]:
                raise RuntimeError(f"key {summary['numerics_key']}, expected {plain['numerics_key']}")
            result, _ = model.train(exe, *choice.choice([[], ["--poison"], ["--adversarial", str(seed)]]))
            require_equal(reference, result)
            model.check_evidence(summary)
            counts.update(traits(plan, microbatch, model.batch))
        except RuntimeError as error:
            bad.append(f"{' '.join(flags)}: {error}")
    print(f"{model.name}: {plans} plans of {len(references)} keys; of them " +
          ", ".join(f"{name} {100 * n // plans} %" for name, n in sorted(counts.items(), key=lambda item: -item[1])))
    return plans, bad, counts


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--optimizer", default="adamw", choices=["adamw", "sgd"])
    ap.add_argument("--seeds", type=lambda text: range(*map(int, text.split(":"))), default=range(8))
    ap.add_argument("--long", action="store_true")
    ap.add_argument("--devices", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 3, 4, 8])
    ap.add_argument("--microbatches", type=lambda text: [int(n) for n in text.split(",")])
    ap.add_argument("model_dir", nargs="+")
    args = ap.parse_args()
    if args.long:
        args.seeds = range(200)
    total = failed = 0
    for folder in args.model_dir:
        with Model(args.harmonyc, folder, args.optimizer) as model:
            plans, bad, counts = check(args, model)
        # Few seeds need not show everything.
        if args.long:
            bad += [f"only {n} of {plans} plans have {name}" for name, n in counts.items()
                    if n * 10 < plans and name != AMONG]
        total, failed = total + plans, failed + len(bad)
        for line in bad:
            print("FAIL " + line, flush=True)
    print(f"{total - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
