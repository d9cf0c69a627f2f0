#!/usr/bin/env python3
"""Compares predicted step times with measured ones, on one device with its copy threads.

    bench/prediction.py [--build build] [--threads 1] [--models mlp,gpt,...] [--machine FILE.json] [--seconds 1.5]
                        [--write docs/Performance.md]

Measures the machine (harmonyc machine), then compiles six models with as much memory as they like, half and a quarter
of that (but the least that there is a plan for), and a quarter behind enforced links of a quarter of the copies'
bandwidth. Each is planned twice: with the rates of the machine file, and again with the costs that the first executable
measured (--profile). Predicted is the plan's iteration_s, measured the lower quartile of the steps of several runs, as
rates are that of several rounds: what the machine does while others leave memory and caches alone, which are shared
with whatever else its host runs. The median step stands beside it. A run is repeated once where other processes
took more than 5 % of the processors, or reference work before or behind it took 20 % longer than at best. The verdict:
off by at most 10 % at the median and 25 % at worst with the machine file; run it on a quiet machine. Exit code 1 where
it is missed. Bytes and peaks are compared by every run itself, which fails where they differ from the plan. Takes less
than six minutes. Needs NumPy and the target harmonyc.
"""
import argparse, json, pathlib, statistics, subprocess, sys, tempfile, time

import make_models
import measuring

HERE = pathlib.Path(__file__).resolve().parent
MARKERS = ("<!-- table of bench/prediction.py -->", "<!-- end of table -->")
MODELS = {
    "mlp": (lambda path: make_models.make_mlp(path, 4, 784, 1024, 10, seed=0), 128),
    "gpt": (lambda path: make_models.make_gpt(path, 4, 256, 4, 128, 4096, seed=0), 8),
    "gpt-deep": (lambda path: make_models.make_gpt(path, 12, 128, 4, 64, 1024, seed=0), 8),
    "bert": (lambda path: make_models.make_bert(path, 4, 256, 4, 64, 4096, 2, seed=0), 8),
    "vgg": (lambda path: make_models.make_vgg(path, 4, 2, 32, 32, 256, 10, seed=0), 16),
    "resnet": (lambda path: make_models.make_resnet(path, 16, 64, 100, seed=0), 16),
}
MEDIAN, WORST = 0.10, 0.25
QUIET = 0.05  # of the processors, taken by others
EVEN = 0.20  # by which reference work takes longer than at best
RUNS = 3


def run(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nends with {result.returncode}\n{result.stderr[-4000:]}")
    return result.stdout


class Case:
    """A model with a memory limit, compiled and run."""

    def __init__(self, arguments, folder, reference, name, machine, memory, enforced):
        self.arguments, self.folder, self.name, self.machine = arguments, folder, name, machine
        self.reference = reference
        self.memory, self.enforced = memory, enforced
        self.disturbed = 0  # the most of the runs that count; at most 1 where nothing did

    def compile(self, profile=None):
        command = [self.arguments.harmonyc, "compile", self.folder / f"{self.name}.onnx", "--batch", MODELS[self.name][1],
                   "--machine", self.machine, "--plan-out", self.folder / "plan.json", "-o", self.folder / "exe"]
        if self.memory:
            command += ["--device-memory", self.memory]
        if profile:
            command += ["--profile", profile]
        run(command)
        self.summary = json.load(open(self.folder / "plan.json"))["summary"]
        return self.summary["iteration_s"]

    def measure(self, profile=None):
        """The lower quartile and the median of the steps, in seconds, without the first two of each run."""
        steps = min(100, max(8, int(self.arguments.seconds / RUNS / self.summary["iteration_s"])))
        command = [self.folder / "exe", "--synthetic", "--steps", steps, "--threads", self.arguments.threads, "--log",
                   self.folder / "log.jsonl"]
        if self.enforced:
            command.append("--enforce-links")
        times = []
        for number in range(RUNS):
            # The profile is of one run: the costs of all would be as long as all steps.
            kept = ["--profile", profile] if profile and number == 0 else []
            times += self.undisturbed(command + kept)
        return measuring.lower_quartile(times), statistics.median(times)

    def undisturbed(self, command):
        """The steps of one run or two, of which the one counts that was disturbed least."""
        runs = []
        while len(runs) < 2 and (not runs or min(runs)[0] > 1):
            before = self.reference.excess()
            others = measuring.Others()
            run(command)
            share = others.share()
            uneven = max(before, self.reference.excess())
            times = [json.loads(line)["step_s"] for line in open(self.folder / "log.jsonl") if '"step_s"' in line]
            runs.append((max(share / QUIET, uneven / EVEN), times[2:]))
        self.disturbed = max(self.disturbed, min(runs)[0])
        return min(runs)[1]


def slower(machine, path, factor):
    """The machine with links of a part of their bandwidth, as a file of its own."""
    document = json.load(open(machine))
    for link in document["links"]:
        link["bytesPerSecond"] *= factor
    json.dump(document, open(path, "w"))
    return path


def measure(arguments, folder):
    machine = arguments.machine
    if not machine:
        machine = folder / "machine.json"
        print(run([arguments.harmonyc, "machine", "-o", machine, "--threads", arguments.threads]), flush=True)
    slow = slower(machine, folder / "slow.json", 0.25)
    reference = measuring.Reference()
    rows = []
    for name in arguments.models:
        MODELS[name][0](str(folder / f"{name}.onnx"))
        unlimited, least = None, 0
        for part, enforced in ((1, False), (2, False), (4, False), (4, True)):
            memory = unlimited and max(unlimited // part, least)
            case = Case(arguments, folder, reference, name, slow if enforced else machine, memory, enforced)
            predicted = case.compile()
            if not unlimited:
                unlimited, least = max(case.summary["peak_bytes"]), case.summary["min_device_bytes"]
            swapped = case.summary["swap_in_bytes"] + case.summary["swap_out_bytes"]
            profile = folder / "profile.json"
            measured, typical = case.measure(profile)
            again = case.compile(profile), case.measure()[0]
            rows.append({"model": name, "memory": "all" if part == 1 else "least" if memory == least else f"1/{part}",
                         "enforced": enforced,
                         "swapped": swapped, "predicted": predicted, "measured": measured, "median": typical,
                         "profiled": again[0], "then": again[1], "disturbed": case.disturbed})
            row = rows[-1]
            print(f"{name:9} {row['memory']:5} {'slow' if enforced else '    '} machine {predicted * 1e3:8.2f} "
                  f"measured {measured * 1e3:8.2f} ms {error(row):+6.1%}   profile {again[0] * 1e3:8.2f} measured "
                  f"{again[1] * 1e3:8.2f} ms {error(row, True):+6.1%}"
                  + ("   disturbed" if case.disturbed > 1 else ""),
                  flush=True)
    return rows


def error(row, profiled=False):
    """Predicted over measured, less one."""
    return row["profiled"] / row["then"] - 1 if profiled else row["predicted"] / row["measured"] - 1


def verdict(rows, profiled):
    errors = [abs(error(row, profiled)) for row in rows]
    median, worst = statistics.median(errors), max(errors)
    good = median <= MEDIAN and worst <= WORST
    what = "with measured costs" if profiled else "with the machine file"
    text = (f"{what}: off by {median:.1%} at the median, {worst:.1%} at worst "
            f"(wanted: {MEDIAN:.0%} and {WORST:.0%}): {'met' if good else 'missed'}")
    return good, text


def table(rows):
    def off(row, profiled):
        return f"{100 * error(row, profiled):+.0f} %"
    return measuring.table(
        ["model", "memory", "links", "swapped, MB", "predicted, ms", "measured, ms", "median, ms", "off",
         "predicted by profile, ms", "measured, ms", "off"],
        [[row["model"], row["memory"], "enforced" if row["enforced"] else "copies", f"{row['swapped'] / 1e6:.1f}",
          f"{row['predicted'] * 1e3:.1f}", f"{row['measured'] * 1e3:.1f}", f"{row['median'] * 1e3:.1f}",
          off(row, False),
          f"{row['profiled'] * 1e3:.1f}", f"{row['then'] * 1e3:.1f}", off(row, True)] for row in rows])


def main():
    parser = argparse.ArgumentParser(description="compare predicted step times with measured ones")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build", help="build folder")
    parser.add_argument("--threads", type=int, default=1, help="that compute; copies have threads of their own")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS), help="some of them")
    parser.add_argument("--machine", type=pathlib.Path, help="machine file, instead of measuring")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each run, about")
    parser.add_argument("--write", type=pathlib.Path, help="file whose table is replaced")
    arguments = parser.parse_args()
    arguments.harmonyc = arguments.build.resolve() / "bin/harmonyc"
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(arguments, pathlib.Path(folder))
    verdicts = [verdict(rows, profiled) for profiled in (False, True)]
    text = table(rows) + "\n\n" + "\n".join("* " + line for _, line in verdicts)
    print(text)
    disturbed = sum(row["disturbed"] > 1 for row in rows)
    print(f"{time.monotonic() - begin:.0f} s; {disturbed} of {len(rows)} cases were disturbed"
          + (": repeat this on a quiet machine" if disturbed else ""))
    if arguments.write:
        measuring.replace_between(arguments.write, MARKERS, text)
    sys.exit(0 if verdicts[0][0] else 1)


if __name__ == "__main__":
    main()
