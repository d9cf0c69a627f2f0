#!/usr/bin/env python3
"""Plans the published system's profiles on its machine and compares with what no plan can be faster than.

    bench/planner.py --artifact DIR [--build build] [--models bert_large,gpt2_xl] [--devices 1,8] [--batches 16,64]
                     [--machine harmony-1080ti] [--write docs/Schedules.md]
    bench/planner.py --artifact DIR --originals [--build build] [--write docs/Schedules.md]
    bench/planner.py --artifact DIR --variants [--build build] [--write docs/Schedules.md]

DIR has profiles/MODEL.json and schedules/*.json: numbers of Harmony's artifact (github.com/msr-fiddle/harmony, MIT).
Each row is one `harmonyc plan`, whose plan is verified. Devices have 10 GiB.

LBr is the artifact's yardstick, D * sum over layers of the least (forward + backward)(u) / u, over N: its backward
contains the recomputation; u is any measured size up to D. LBd is the plan's `bound_s` (compiler/Planner/Bound.h): only
sizes that divide a group's batch, one microbatch's way through all layers, nothing recomputed that memory can keep.

--originals takes the 26 stored schedules instead: each is built as a plan of ours, with its packs, microbatches and
placement, at the memory that it needs, and simulated with everything overlapped; then the search plans at that
capacity. Ends with 1 where an original is faster by more than the 1 % that the search gives for less swapping.

--variants plans the 80 on the machine and on two that share what it does not, and says which form wins by how much: how
often it does, and how many times longer the best plan of any other form takes (geometric mean).

Search times are those of the processor. Needs the target harmonyc.
"""
import argparse, collections, json, math, pathlib, sys, tempfile

import measuring

MODELS = ("bert_large", "bert_96", "gpt2_xl", "vgg416", "gpt2_10b")
MARKERS = ("<!-- tables of bench/planner.py -->", "<!-- end of tables of bench/planner.py -->")
VARIANTS = ("<!-- table of bench/planner.py --variants -->", "<!-- end of table of bench/planner.py --variants -->")
MACHINES = ("harmony-1080ti", "harmony-1080ti-one-peer-link", "harmony-1080ti-one-update-engine")
ORIGINALS = ("<!-- table of bench/planner.py --originals -->", "<!-- end of table of bench/planner.py --originals -->")
GIB = 2**30
EQUAL = 1.01  # of plans within 1 % of the fastest the search takes the one that swaps least


def interpolate(samples, layer, size):
    """The seconds of a layer at a microbatch size: numpy.interp."""
    sizes = sorted(int(u) for u in samples)
    at = lambda u: samples[str(u)]["t"][layer]
    if size >= sizes[-1]:
        return at(sizes[-1])
    above = next(u for u in sizes if u >= size)
    if above == size or above == sizes[0]:
        return at(above)
    below = sizes[sizes.index(above) - 1]
    return at(below) + (at(above) - at(below)) * (size - below) / (above - below)


def recompute_bound(profile, batch, devices):
    largest = min(max(map(int, profile[key])) for key in ("fwd", "bwd"))
    sizes = [u for u in range(1, min(batch, largest) + 1) if batch % u == 0]
    return batch / devices * sum(
        min((interpolate(profile["fwd"], layer, u) + interpolate(profile["bwd"], layer, u)) / u for u in sizes)
        for layer in range(profile["R"]))


def plan(arguments, model, devices, batch, *flags, machine=None):
    """The plan's document and the seconds of the processor that the command took."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "plan.json"
        sizes = ["--batch", batch, "--devices", devices] if batch else []
        command = [arguments.build / "bin/harmonyc", "plan", arguments.artifact / "profiles" / f"{model}.json",
                   *sizes, "--machine", machine or arguments.machine, "--plan-out", out, *flags]
        run = measuring.run(command)
        return json.loads(out.read_text()), run.processor


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def artifact_estimates(arguments):
    """The best of the artifact's own estimates by (model, devices, batch), with prefetch or without."""
    best = {}
    for path in sorted((arguments.artifact / "schedules").glob("*.json")):
        schedule = json.loads(path.read_text())
        key = schedule["model"], schedule["N"], schedule["D"]
        seconds = min(found["iteration_s"] for found in schedule["estimate"].values()
                      if isinstance(found, dict) and "iteration_s" in found)
        best[key] = min(seconds, best.get(key, math.inf))
    return best


def attainable(arguments):
    estimates = artifact_estimates(arguments)
    rows, slowest = [], 0
    ratios, distances, of_groups = (collections.defaultdict(list) for _ in range(3))
    for model in arguments.models:
        profile = json.loads((arguments.artifact / "profiles" / f"{model}.json").read_text())
        for devices in arguments.devices:
            for batch in arguments.batches:
                document, seconds = plan(arguments, model, devices, batch)
                found = document["summary"]
                bound = recompute_bound(profile, batch, devices)
                ratio, distance = found["iteration_s"] / bound, found["distance"]
                slowest = max(slowest, seconds)
                for key in ("all", model, f"N = {devices}", f"D = {batch}"):
                    ratios[key].append(ratio)
                    distances[key].append(distance)
                    of_groups[key].append(found["iteration_s"] / found["bound_of_groups_s"])
                estimate = estimates.get((model, devices, batch))
                rows.append([model, devices, batch, f"{found['iteration_s']:.3f}", f"{found['bound_s']:.3f}",
                             f"{bound:.3f}", f"{distance:.3f}", f"{ratio:.3f}",
                             f"{estimate / found['iteration_s']:.2f}" if estimate else "",
                             f"{(found['swap_in_bytes'] + found['swap_out_bytes']) / GIB:.1f}",
                             f"{found['peer_bytes'] / GIB:.1f}", f"{max(found['peak_bytes']) / GIB:.2f}",
                             f"{seconds:.2f}", found["form"]])
                print(*rows[-1], file=sys.stderr, flush=True)
    means = [[key, len(ratios[key]), f"{mean(ratios[key]):.3f}", f"{mean(distances[key]):.3f}",
              f"{mean(of_groups[key]):.3f}"] for key in ratios]
    return "\n\n".join([
        measuring.table(["", "plans", "geometric mean of time / LBr", "of time / LBd",
                         "of time / LBd of as many groups"], means),
        measuring.table(["model", "N", "D", "time, s", "LBd, s", "LBr, s", "time / LBd", "time / LBr",
                         "artifact's estimate / time", "swapped, GiB", "between devices, GiB", "peak, GiB",
                         "search, s", "form"], rows),
        f"The slowest search took {slowest:.2f} s of the processor."])


def originals(arguments):
    """The artifact's schedules as plans of ours, and what the search finds in the same memory."""
    rows, faster = [], []
    for path in sorted((arguments.artifact / "schedules").glob("*.json")):
        schedule = json.loads(path.read_text())
        model, devices, batch = schedule["model"], schedule["N"], schedule["D"]
        if model not in arguments.models:
            continue
        theirs, _ = plan(arguments, model, None, None, "--plan-in", path)
        peak = max(theirs["summary"]["peak_bytes"])
        ours, _ = plan(arguments, model, devices, batch, "--device-memory", peak)
        times = theirs["summary"]["iteration_s"], ours["summary"]["iteration_s"]
        estimate = min(found["iteration_s"] for found in schedule["estimate"].values() if isinstance(found, dict))
        rows.append([model, schedule["mode"], devices, batch, f"{peak / GIB:.2f}", f"{estimate:.3f}",
                     f"{times[0]:.3f}", f"{times[1]:.3f}", f"{times[0] / times[1]:.3f}", ours["summary"]["form"]])
        print(*rows[-1], file=sys.stderr, flush=True)
        if times[1] > EQUAL * times[0]:
            faster.append(path.stem)
    text = measuring.table(["model", "mode", "N", "D", "memory it needs, GiB", "artifact's estimate, s",
                            "its packs as our plan, s", "our plan in that memory, s", "times as fast", "form"], rows)
    text += f"\n\nGeometric mean: {mean([float(row[8]) for row in rows]):.3f} times as fast."
    return text, faster


def kind(form, devices):
    """Groups of one device, one pipeline, or what lies between."""
    groups = int(form.split()[0]) if devices > 1 else 1
    return "one group" if groups == 1 else f"{devices} groups" if groups == devices else "groups of several devices"


def variants(arguments):
    """Which form wins on machines that share more."""
    rows = []
    for devices in (count for count in arguments.devices if count > 1):
        base = {}
        for machine in MACHINES:
            wins, others, slower = collections.Counter(), collections.defaultdict(list), []
            for model in arguments.models:
                for batch in arguments.batches:
                    found, _ = plan(arguments, model, devices, batch, machine=machine)
                    best = {}
                    for entry in found["summary"]["best_of_forms"]:
                        best.setdefault(kind(entry["form"], devices), entry["iteration_s"])
                    won = kind(found["summary"]["form"], devices)
                    seconds = found["summary"]["iteration_s"]
                    wins[won] += 1
                    if len(best) > 1:
                        others[won].append(min(best[key] for key in best if key != won) / seconds)
                    slower.append(seconds / base.setdefault((model, batch), seconds))
            rows.append([devices, machine, f"{mean(slower):.3f}", "; ".join(
                f"{form}: {count}" + (f" (× {mean(others[form]):.2f})" if others[form] else "")
                for form, count in wins.most_common())])
            print(*rows[-1], file=sys.stderr, flush=True)
    return measuring.table(["N", "machine", "× the time of the first", "form that wins: how often (× time of the best "
                            "plan of another)"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--artifact", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--models", type=lambda text: text.split(","), default=MODELS)
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("--devices", type=numbers, default=[1, 2, 4, 8])
    parser.add_argument("--batches", type=numbers, default=[16, 32, 64, 256])
    parser.add_argument("--machine", default="harmony-1080ti")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--originals", action="store_true")
    parser.add_argument("--variants", action="store_true")
    arguments = parser.parse_args()
    faster, markers = [], MARKERS
    if arguments.originals:
        (text, faster), markers = originals(arguments), ORIGINALS
    elif arguments.variants:
        text, markers = variants(arguments), VARIANTS
    else:
        text = attainable(arguments)
    if arguments.write:
        measuring.replace_between(arguments.write, markers, text)
    else:
        print(text)
    if faster:
        sys.exit("originals that are faster: " + ", ".join(faster))


if __name__ == "__main__":
    main()
