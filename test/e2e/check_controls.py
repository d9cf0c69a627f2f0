#!/usr/bin/env python3
"""Negative control: a plan or program made wrong is caught.

    check_controls.py --harmonyc build/bin/harmonyc [--limit 12] [--seeds 12] [--long] MODEL_DIR ...

Three kinds of damage, to the plan of three devices in their least memory, by form of the schedule:

* a wait is taken out of the plan, or a buffer's last use is moved before it, in the plan's file: `--plan-in` must
  refuse it (the verifier, before anything runs). What it lets pass must be harmless: the changed plan trains with equal
  bits under --adversarial, and is counted apart;
* a wait is dropped from the compiled program (EXE --drop-wait), past every verifier: some hostile order must give
  wrong bits, poison, or an error. Those that other waits imply are counted apart, and must give equal bits;
* a range is released early (EXE --early-release): likewise.

--limit: so many of each, drawn at random; --long: all, and 100 hostile orders.
"""
import argparse, collections, copy, json, random, re, subprocess, sys

from training import REFUSED, Model, call, require_equal


def attempt(model, reference, exe, seeds, *flags):
    """How a damaged program shows in any of some orders: 'bits', 'error', or '' if it does not."""
    for seed in seeds:
        try:
            result, _ = model.train(exe, *flags, "--adversarial", seed, timeout=120)
        except (RuntimeError, subprocess.TimeoutExpired):
            return "error"
        try:
            require_equal(reference, result)
        except RuntimeError:
            return "bits"
    return ""


def damaged_plans(plan, choice, limit):
    """Plans without one of their waits, and plans with a buffer that ends too early; with a label each."""
    waits = [(e, w) for e, event in enumerate(plan["events"]) for w in range(len(event.get("waits", [])))]
    for e, w in choice.sample(waits, min(limit, len(waits))):
        changed = copy.deepcopy(plan)
        del changed["events"][e]["waits"][w]
        yield "wait", changed
    ranges = [b for b, buffer in enumerate(plan["buffers"])
              if not buffer.get("persistent", False) and buffer["first"] != buffer["last"]]
    for b in choice.sample(ranges, min(limit, len(ranges))):
        changed = copy.deepcopy(plan)
        changed["buffers"][b]["last"] = changed["buffers"][b]["first"]
        yield "live range", changed


def check_plan(model, flags, plan, reference, args, counts):
    bad = []
    plan = {key: value for key, value in plan.items() if key != "summary"}
    file = model.path("damaged.json")
    for kind, changed in damaged_plans(plan, random.Random(1), args.limit):
        with open(file, "w") as f:
            json.dump(changed, f)
        exe = model.path("damaged")
        p = subprocess.run([model.harmonyc, "compile", *model.flags, *flags, "--plan-in", file, "-o", exe],
                           capture_output=True, text=True, timeout=600)
        if p.returncode == REFUSED:
            counts[f"plan, {kind}: refused"] += 1
        elif p.returncode:
            bad.append(f"plan without a {kind}: exit {p.returncode}: {p.stderr[-500:]}")
        elif shown := attempt(model, reference, exe, args.orders):
            bad.append(f"plan without a {kind}: accepted, and the run shows {shown}")
        else:
            counts[f"plan, {kind}: order unchanged"] += 1
    return bad


def check_program(model, exe, reference, args, counts):
    bad = []
    choice = random.Random(2)
    listing = call([exe, "--count-waits"]).stdout
    for kind, flag, harmless in (("wait", "--drop-wait", "redundant"), ("release", "--early-release", "unread")):
        lines = re.findall(rf"^{kind} (\d+): (.*)$", listing, re.M)
        for number, text in choice.sample(lines, min(args.limit, len(lines))):
            if text.endswith(harmless) and kind == "release":
                continue  # nothing on its queue reads it: there is no earlier place
            shown = attempt(model, reference, exe, args.orders, flag, number)
            if text.endswith(harmless):
                counts[f"program, {kind}: order unchanged"] += 1
                if shown:
                    bad.append(f"{flag} {number} is called {harmless}, and the run shows {shown}")
            else:
                counts[f"program, {kind}: {shown or 'not seen'}"] += 1
    return bad


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--limit", type=int, default=12)
    ap.add_argument("--seeds", type=int, default=12)
    ap.add_argument("--long", action="store_true")
    ap.add_argument("model_dir", nargs="+")
    args = ap.parse_args()
    if args.long:
        args.limit, args.seeds = 1 << 30, 100
    args.orders = range(args.seeds)
    bad = []
    for folder in args.model_dir:
        with Model(args.harmonyc, folder) as model:
            for schedule in ("harmony-pp", "harmony-dp"):
                counts = collections.Counter()
                flags = ["--devices", "3", "--schedule", schedule]
                least = model.plan(*flags)["summary"]["min_device_bytes"]
                exe, plan = model.compile(*flags, "--device-memory", str(least))
                reference, _ = model.train(exe)
                # The compiler's files change with the next compilation.
                bad += check_program(model, exe, reference, args, counts)
                # The plan has decided the schedule.
                bad += check_plan(model, flags[:2], plan, reference, args, counts)
                print(f"{model.name} {schedule}:")
                for name, n in sorted(counts.items()):
                    print(f"  {n:6} {name}")
                if not any(name.startswith("plan") and name.endswith("refused") for name in counts):
                    bad.append("no damaged plan is refused: the comparison shows nothing")
    for line in bad:
        print("FAIL " + line)
    print(f"{len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
