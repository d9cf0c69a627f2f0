#!/usr/bin/env python3
"""Throughput of a GPT over the memory of its devices, from what an unlimited run uses down to the least.

    bench/memory.py [--build build] [--devices 1,2,4] [--slower 1,16] [--layers 24] [--batch 16] [--plan-only]
                    [--no-wall] [--threads 1] [--rounds 5] [--write docs/Schedules.md]

Every row is compiled for devices of a share of the bytes that the fullest device has in use where memory is not
limited, and trains. `bytes / bandwidth`: the time that the plan's bytes take on the busiest link, or on what links
share, over the time that the busiest device of the unlimited plan computes; up to 1 the link can carry them beside the
work. Times of several devices are of the virtual clock, which carries out the plan with predicted costs and shared
links while the arithmetic really runs; those of one device are wall times, with transfers slowed to the machine's
links (--enforce-links) and without, which says what the engine and its copies cost, beside the virtual ones. One thread
computes, so that two processors are a device and its copies. Rows take turns for several rounds, and the median step of
a row's best round counts: a shared host is slow for seconds to minutes. The machines are that of bench/schedules.py and
those whose links are --slower; wall times are of plans for this machine as `harmonyc machine` measures it, since others
may be as fast at sizes at which this one is slow. --plan-only takes simulated times of the former alone and runs
nothing. Takes ten minutes; needs NumPy.
"""
import argparse, collections, itertools, json, os, pathlib, statistics, sys, tempfile

import measuring
import schedules

HERE = pathlib.Path(__file__).resolve().parent
MARKERS = ("<!-- table of bench/memory.py -->", "<!-- end of table of bench/memory.py -->")
SHARES = (1, 2, 4, 8)
UNLIMITED = 1 << 39
HOST = -1


def carried(plan, machine):
    """The longest time that a link, or what links share, needs for the plan's bytes."""
    links = {(link["from"], link["to"]): link for link in machine["links"]}
    bytes_of = collections.Counter()
    for event in plan["events"]:
        kind = plan["queues"][event["queue"]]["kind"]
        device = event.get("device", 0)
        ends = {"in": (HOST, device), "out": (device, HOST), "peer": (event.get("source"), device)}.get(kind)
        if ends:
            bytes_of[ends] += event.get("bytes", 0) * event.get("trips", 1)
    seconds = {}
    shared = collections.Counter()
    for ends, count in bytes_of.items():
        seconds[ends] = count / links[ends]["bytesPerSecond"]
        for share in links[ends].get("shares", ()):
            shared[share] += count
    for share, count in shared.items():
        seconds[share] = count / machine["resources"][share]["bytesPerSecond"]
    return max(seconds.values())


class Bench(schedules.Bench):
    def __init__(self, build, folder, arguments):
        super().__init__(build, folder)
        self.arguments = arguments

    def this_machine(self):
        file = self.folder / "measured.json"
        if not file.exists():
            measuring.measure_machine(self.harmonyc, file, self.arguments.threads)
        return json.loads(file.read_text())

    def measure(self, model, machine, capacity, devices):
        """A row: what the plan says, and what a run of it measures on the virtual clock."""
        file, plan = self.folder / "machine.json", self.folder / "plan.json"
        exe = self.folder / f"train-{capacity}"
        file.write_text(json.dumps(machine))
        command = "plan" if self.arguments.plan_only else "compile"
        output = [] if self.arguments.plan_only else ["-o", exe]
        self.run(self.harmonyc, command, model, "--batch", self.arguments.batch, "--machine", file,
                 "--device-memory", capacity, "--plan-out", plan, *output)
        with open(plan) as f:
            planned = json.load(f)
        summary = planned["summary"]
        row = dict(capacity=capacity, peak=max(summary["peak_bytes"]), least=summary["min_device_bytes"],
                   swap=summary["swap_in_bytes"] + summary["swap_out_bytes"], carried=carried(planned, machine),
                   compute=planned["computeSeconds"], predicted=self.arguments.batch / summary["iteration_s"],
                   form=f"{summary['schedule']}, {summary['groups']} groups" if devices > 1 else "",
                   sizes=sorted({phase["microbatch"] for phase in planned["phases"]}))
        if self.arguments.plan_only:
            return row
        batch = self.arguments.batch
        last = self.steps(3, exe, "--virtual-time")[-1]
        assert last["swap_in_bytes"] + last["swap_out_bytes"] == row["swap"], "the run moves what the plan does not"
        row["virtual"] = batch / last["step_s"]
        return row

    def measure_wall(self, rows):
        """Adds wall times to the rows."""
        rounds = collections.defaultdict(list)
        for _ in range(self.arguments.rounds):
            for row in rows:
                for name, flags in (("enforced", ["--enforce-links"]), ("free", [])):
                    steps = self.steps(4, self.folder / f"train-{row['capacity']}", *flags,
                                       threads=self.arguments.threads)
                    rounds[row["capacity"], name].append(statistics.median(step["step_s"] for step in steps[1:]))
        for row in rows:
            for name in ("enforced", "free"):
                row[name] = self.arguments.batch / min(rounds[row["capacity"], name])


def megabytes(count):
    return f"{count / 1e6:.1f}"


def slowed(machine, factor):
    """The machine with slower links."""
    for part in machine["links"] + machine.get("resources", []):
        part["bytesPerSecond"] /= factor
    return machine


def lines_of(devices, slower, rows):
    """Of one number of devices and one machine."""
    first = rows["unlimited"]
    which = " (measured)" if "free" in first else ""
    for name, row in rows.items():
        if isinstance(row, str):
            yield [devices, slower, name, row] + [""] * 8
            continue
        share = lambda key: f"{row[key]:.2f} ({100 * row[key] / first[key]:.0f} %)" if key in row else ""
        limit = "" if row["capacity"] == UNLIMITED else megabytes(row["capacity"])
        yield [f"{devices}{which}", slower, name, limit, megabytes(row["peak"]), megabytes(row["swap"]),
               f"{row['carried'] / first['compute']:.2f}", share("predicted"),
               share("virtual"), share("enforced"), share("free"),
               ", ".join(filter(None, [row["form"], "u = " + " and ".join(map(str, row["sizes"]))]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build", help="build folder")
    parser.add_argument("--devices", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--slower", type=lambda text: [int(n) for n in text.split(",")], default=[1, 16],
                        help="links are so many times slower")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--plan-only", action="store_true", help="simulated times; nothing runs")
    parser.add_argument("--no-wall", action="store_true", help="no wall times")
    parser.add_argument("--threads", type=int, default=1, help="that compute in wall times; copies have their own")
    parser.add_argument("--rounds", type=int, default=5, help="of wall times")
    parser.add_argument("--write", type=pathlib.Path, help="file whose table is replaced")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments.build.resolve(), folder, arguments)
        model = os.path.join(folder, "gpt.onnx")
        bench.run(sys.executable, HERE / "make_models.py", "gpt", model, "--layers", arguments.layers, "--hidden",
                  arguments.hidden, "--heads", 4, "--length", arguments.length, "--vocabulary", 512)
        for devices, slower in itertools.product(arguments.devices, arguments.slower):
            wall = devices == 1 and not arguments.no_wall and not arguments.plan_only
            machine = slowed(bench.this_machine() if wall else schedules.machine(devices), slower)
            rows = {"unlimited": bench.measure(model, machine, UNLIMITED, devices)}
            peak, least = rows["unlimited"]["peak"], rows["unlimited"]["least"]
            capacities = {f"1/{share}" if share > 1 else "1": peak // share for share in SHARES}
            capacities["least"] = least
            for name, capacity in capacities.items():
                rows[name] = (f"less than the least ({megabytes(least)} MB)" if capacity < least else
                              bench.measure(model, machine, capacity, devices))
                print(devices, slower, name, rows[name], flush=True, file=sys.stderr)
            if wall:
                bench.measure_wall([row for row in rows.values() if not isinstance(row, str)])
            results += lines_of(devices, slower, rows)
    text = measuring.table(["devices", "links slower", "memory", "of each, MB", "peak, MB", "swapped a step, MB",
                            "bytes / bandwidth", "samples/s, plan", "samples/s, virtual", "wall, links enforced",
                            "wall", "plan"], results)
    print(text)
    if arguments.write:
        measuring.replace_between(arguments.write, MARKERS, text)


if __name__ == "__main__":
    main()
