#!/usr/bin/env python3
"""What plans predict against what executables do on the virtual clock.

    check_prediction.py --harmonyc build/bin/harmonyc [--devices 1,2,4,8] [--random 2] [--tolerance 0.001] [--controls 64]
                        [--write docs/Runtime.md] MODEL_DIR ...

Every model is compiled for every number of devices in every form (chosen freely, as a pipeline, data parallel, the
baselines, plans drawn at random), on machines of several kinds whose links matter: devices behind one root port, peer
links that share a switch, none, and the artifact's fixed shares with time at the end of phases and one update engine a
device. The executable trains on its virtual clock, which advances on the waits of its command tables and shares no code
with the planner's simulator. The steps that the planner's simulator takes for steady must take the plan's iteration_s
within the tolerance, all later ones, which settle on, within 1 %; bytes and peaks must be equal.

Negative control: of the executables of the forms auto and random, waits drawn at random ask for more than the plan's
(--late-wait), until one makes a step longer than the tolerance; so it must for every executable. --write puts the table between the markers of a file.
"""
import argparse, json, pathlib, random, re, statistics, sys

from training import Model, call

MARKERS = ("<!-- table of check_prediction.py -->", "<!-- end of table -->")
STEPS = 13
COUNTED = slice(4, 6)  # the executions whose mean is iteration_s (Simulate.cpp)
SETTLED = 0.01


def machine(kind, devices, scale):
    """Links and kernels of about equal weight: `scale` is the training state of the model, in bytes."""
    host, peer, latency = 400 * scale, 300 * scale, 2e-5
    resources, shares = [], {}
    if kind != "own ports":
        resources = [{"name": "in", "bytesPerSecond": 1.5 * host}, {"name": "out", "bytesPerSecond": 1.5 * host}]
        shares = {"in": [0], "out": [1], "peer": []}
    if kind == "one switch":
        resources.append({"name": "switch", "bytesPerSecond": 1.2 * peer})
        shares["peer"] = [2]
    links = []
    for a in range(-1, devices):
        for b in range(-1, devices):
            way = "in" if a == -1 else "out" if b == -1 else "peer"
            if a == b or (way == "peer" and kind == "no peers"):
                continue
            links.append({"from": a, "to": b, "bytesPerSecond": peer if way == "peer" else host,
                          "latencySeconds": latency, "shares": shares.get(way, [])})
    found = {"schema": "harmony.machine", "version": 1, "name": kind, "hostBytes": 0, "resources": resources,
             "devices": [{"name": f"device {d}", "capacity": 1 << 40, "flopsPerSecond": 2e9, "bytesPerSecond": 1e9}
                         for d in range(devices)],
             "links": links}
    if kind == "fixed shares":
        found.update(sharing="static", phaseSeconds=2e-4, hostQueues=devices)
    return found


KINDS = ["root port", "one switch", "no peers", "own ports", "fixed shares"]


def forms(devices, seeds):
    yield "auto", ["--schedule", "auto"]
    if devices > 1:
        yield "harmony-pp", ["--schedule", "harmony-pp"]
        yield "harmony-dp", ["--schedule", "harmony-dp"]
        yield "pp-swap", ["--schedule", "pp-swap"]
    yield "dp-swap", ["--schedule", "dp-swap"]
    for seed in seeds:
        yield "random", ["--schedule", "harmony-pp", "--random-plan", seed]


def seconds_of(model, exe, *flags):
    """Of a step: the mean over the steps that the plan's iteration_s is of, and over all later but the last, beside which
    none begins. Steps may alternate: both are even numbers."""
    call([exe, "--data", model.data, "--steps", STEPS, "--no-shuffle", "--virtual-time", "--log", model.path("log"), *flags])
    with open(model.path("log")) as f:
        model.log = [row for row in map(json.loads, f) if "step_s" in row]
    seconds = [row["step_s"] for row in model.log]
    return statistics.mean(seconds[COUNTED]), statistics.mean(seconds[COUNTED.stop:-1])


def control(model, exe, expected, args):
    """Waits that were made late, up to the first that shows, and whether one did."""
    waits = re.findall(r"^wait (\d+): (?!.*redundant$)", call([exe, "--count-waits"]).stdout, re.M)
    waits = random.Random(1).sample(waits, min(args.controls, len(waits)))
    for late, number in enumerate(waits, 1):
        if seconds_of(model, exe, "--late-wait", number)[0] > expected * (1 + args.tolerance):
            return late, 1
    return len(waits), 0


def check(args, model, rows, bad):
    late = shown = controlled = 0
    count = 0
    scale = model.plan()["summary"]["training_state_bytes"]
    for devices in args.devices:
        for form, flags in forms(devices, args.random):
            kind = KINDS[count % len(KINDS)]
            count += 1
            case = f"{model.name}, {devices} devices, {kind}: {' '.join(map(str, flags))}"
            try:
                with open(model.path("machine.json"), "w") as f:
                    json.dump(machine(kind, devices, scale), f)
                flags = ["--machine", model.path("machine.json"), *map(str, flags)]
                planned = model.plan(*flags)
                if not planned:
                    raise RuntimeError(model.refusal)
                # Halfway to the least memory.
                least, most = planned["summary"]["min_device_bytes"], max(planned["summary"]["peak_bytes"])
                exe, plan = model.compile(*flags, "--device-memory", str(max(least, (least + most) // 2)))
                summary = plan["summary"]
                (took, later), expected = seconds_of(model, exe), summary["iteration_s"]
                model.check_evidence(summary)
                call([exe, "--find-races"])
            except RuntimeError as error:
                bad.append(f"{case}: {error}")
                continue
            rows.append((model.name, devices, form, kind, expected, later / expected))
            for what, seconds, tolerance in (("a step", took, args.tolerance), ("a later step", later, SETTLED)):
                ratio = seconds / expected
                if abs(ratio - 1) > tolerance:
                    bad.append(f"{case}: {what} takes {seconds:g} s, the plan says {expected:g} s: {ratio:.5f} times")
            if args.controls and form in ("auto", "random"):
                found = control(model, exe, expected, args)
                late, shown, controlled = late + found[0], shown + found[1], controlled + 1
                if not found[1]:
                    bad.append(f"{case}: no late wait of {found[0]} shows: the comparison shows nothing")
    if args.controls:
        print(f"{model.name}: of {late} late waits of {controlled} executables {shown} make a step more than "
              f"{args.tolerance:.1%} longer")


def table(rows):
    lines = ["| form | executables | most that a later step takes less, more than the plan says |", "|---|---|---|"]
    for form in dict.fromkeys(row[2] for row in rows):
        ratios = [row[5] for row in rows if row[2] == form]
        lines.append(f"| {form} | {len(ratios)} | {100 * max(0, 1 - min(ratios)):.3f} %, "
                     f"{100 * max(0, max(ratios) - 1):.3f} % |")
    return lines


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--devices", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4, 8])
    ap.add_argument("--random", type=lambda text: range(int(text)), default=range(2))
    ap.add_argument("--tolerance", type=float, default=0.001)
    ap.add_argument("--controls", type=int, default=64)
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("--write", type=pathlib.Path)
    ap.add_argument("model_dir", nargs="+")
    args = ap.parse_args()
    rows, bad = [], []
    for folder in args.model_dir:
        with Model(args.harmonyc, folder) as model:
            check(args, model, rows, bad)
    for row in rows if args.verbose else []:
        print(f"{row[0]}, {row[1]} devices, {row[2]}, {row[3]}: {row[4]:.6f} s, {row[5]:.6f}")
    lines = table(rows)
    print("\n".join(lines))
    if args.write:
        before, rest = args.write.read_text().split(MARKERS[0])
        after = rest.split(MARKERS[1])[1]
        args.write.write_text(before + "\n".join([MARKERS[0], *lines, MARKERS[1]]) + after)
    for line in bad:
        print("FAIL " + line)
    print(f"{len(rows)} executables, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
