#!/usr/bin/env python3
"""Swap volume and throughput of all schedules, in one run of one engine.

    bench/schedules.py [--build build] [--quick] [--models gpt,vgg] [--devices 1,2,4] [--memory 2,4]
                       [--write docs/Schedules.md]

A GPT of 24 layers and a VGG-like network, whose training state is 2 and 4 times the memory of all devices together,
are compiled for 1, 2 and 4 devices with every schedule: Harmony's, chosen freely (auto) or as a pipeline or data
parallel, and the baselines that virtualise each device's memory, with microbatches of one sample and of their own
best size, with and without recomputation. Every executable trains; bytes are those that the run counted, which are
the plan's or the run fails. Times are of the virtual clock, which carries out the plan with the machine's predicted
costs and shared links while the arithmetic really runs; for one device the wall time with enforced links stands
beside. --write puts the tables between the markers of a file; --quick makes small models. Needs NumPy.
"""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
MARKERS = ("<!-- tables of bench/schedules.py -->", "<!-- end of tables -->")
DOES_NOT_FIT = 3

# Both models at two sizes, as make_models.py takes them, and the batch.
MODELS = {
    "gpt": dict(batch=16, full=["--layers", 24, "--hidden", 128, "--heads", 4, "--length", 64, "--vocabulary", 512],
                quick=["--layers", 4, "--hidden", 32, "--heads", 2, "--length", 16, "--vocabulary", 64]),
    "vgg": dict(batch=16, full=["--stages", 5, "--convolutions", 8, "--width", 24],
                quick=["--stages", 2, "--convolutions", 2, "--width", 8, "--image", 8, "--hidden", 32]),
}


def machine(devices):
    """The server of Harmony's paper (four 1080 Ti behind one root port), with products 70 and links 4.4 times slower:
    so the products of one sample of 64 tokens take as long, against the transfer of the weights they need, as those
    of 1,024 tokens there."""
    host, peer = 2.8e9, 2.0e9
    links = [{"from": a, "to": b, "bytesPerSecond": host if -1 in (a, b) else peer, "latencySeconds": 1e-5,
              **({"shares": [0 if a == -1 else 1]} if -1 in (a, b) else {})}
             for a in range(-1, devices) for b in range(-1, devices) if a != b]
    return {"schema": "harmony.machine", "version": 1, "name": "four 1080 Ti, slowed", "hostBytes": 0,
            "resources": [{"name": "root port, in", "bytesPerSecond": host},
                          {"name": "root port, out", "bytesPerSecond": host}],
            "devices": [{"name": f"device {d}", "capacity": 1 << 40, "flopsPerSecond": 1e11, "bytesPerSecond": 2e10}
                        for d in range(devices)],
            "links": links}


def configurations(devices):
    """Rows: the schedule, what is said of its microbatch and recomputation, its flags. On one device a pipeline and
    data parallel are one."""
    for schedule in ("auto", "harmony-pp", "harmony-dp") if devices > 1 else ("auto",):
        yield schedule, "best", "auto", ["--schedule", schedule]
    for schedule in ("pp-swap", "dp-swap") if devices > 1 else ("dp-swap",):
        for microbatch in ("1", "best"):
            for recompute in ("none", "all"):
                flags = ["--schedule", schedule, "--recompute", recompute]
                yield schedule, microbatch, recompute, flags + (["--microbatch", "1"] if microbatch == "1" else [])


class Bench:
    def __init__(self, build, folder):
        self.harmonyc = build / "bin" / "harmonyc"
        self.folder = pathlib.Path(folder)

    def run(self, *command):
        p = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if p.returncode not in (0, DOES_NOT_FIT):
            sys.exit(f"{' '.join(map(str, command))}\nends with {p.returncode}\n{p.stderr[-3000:]}")
        return p

    def steps(self, count, exe, *flags, threads=2):
        """The log's rows of some steps."""
        log = self.folder / "log.jsonl"
        p = self.run(exe, "--synthetic", "--steps", count, "--threads", threads, "--log", log, *flags)
        if p.returncode:
            sys.exit(f"{exe} ends with {p.returncode}\n{p.stderr[-3000:]}")
        with open(log) as f:
            return [row for row in map(json.loads, f) if "step_s" in row]

    def measure(self, model, batch, devices, memory, flags):
        """One row of the table, or the text that says why there is none."""
        file, exe, plan = (self.folder / name for name in ("machine.json", "train", "plan.json"))
        file.write_text(json.dumps(machine(devices)))
        p = self.run(self.harmonyc, "compile", model, "--batch", batch, "--machine", file, "--device-memory",
                     f"{100 / memory}%", "-o", exe, "--plan-out", plan, *flags)
        if p.returncode == DOES_NOT_FIT:
            has, needs = re.search(r"has (\d+) bytes, the least plan needs (\d+)", p.stderr).groups()
            return f"does not fit: needs {megabytes(int(needs))} MB a device, has {megabytes(int(has))}"
        with open(plan) as f:
            planned = json.load(f)
        last = self.steps(2, exe, "--virtual-time")[-1]
        row = dict(swap=last["swap_in_bytes"] + last["swap_out_bytes"], peer=last["peer_bytes"],
                   samples=batch / last["step_s"], state=planned["summary"]["training_state_bytes"],
                   predicted=planned["summary"]["samples_per_s"], chosen=planned["summary"]["schedule"],
                   sizes=sorted({phase["microbatch"] for phase in planned["phases"]}))
        if devices == 1:
            row["wall"] = batch / min(r["step_s"] for r in self.steps(3, exe, "--enforce-links")[1:])
        return row


def megabytes(count):
    return f"{count / 1e6:.1f}"


def table(results):
    lines = ["| model | state / memory | devices | schedule | microbatches | recompute | swapped a step, MB | "
             "between devices, MB | samples/s, virtual | samples/s, wall |", "|---" * 10 + "|"]
    for (model, memory, devices, schedule, microbatch, recompute), row in results.items():
        head = [model, memory, devices, schedule]
        if isinstance(row, str):
            lines.append("| " + " | ".join(map(str, head + [microbatch, recompute, row, "", "", ""])) + " |")
            continue
        if schedule == "auto":
            head[3] = f"auto: {row['chosen']}"
        cells = head + [", ".join(map(str, row["sizes"])), recompute, megabytes(row["swap"]), megabytes(row["peer"]),
                        f"{row['samples']:.1f}", f"{row['wall']:.1f}" if "wall" in row else ""]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def span(values, form):
    values = sorted(values)
    return form.format(values[0]) if len(values) == 1 else f"{form.format(values[0])} to {form.format(values[-1])}"


def comparison(results):
    """Harmony's freely chosen plan beside the baselines: at microbatch 1, and at the best microbatch size of each."""
    lines = ["| model | state / memory | devices | auto swaps, MB | baselines swap, times that | at their best size | "
             "auto's throughput over the baselines' | at their best size |", "|---" * 8 + "|"]
    for place in dict.fromkeys(key[:3] for key in results):
        rows = {key[3:]: row for key, row in results.items() if key[:3] == place and isinstance(row, dict)}
        auto = rows.get(("auto", "best", "auto"))
        groups = [[row for key, row in rows.items() if key[0].endswith("-swap") and key[1] == size]
                  for size in ("1", "best")]
        if not auto or not all(groups):
            continue
        swaps = [span([row["swap"] / auto["swap"] for row in group], "{:.1f}") if auto["swap"] else
                 "auto swaps nothing" for group in groups]
        speeds = [span([auto["samples"] / row["samples"] for row in group], "{:.2f}") for group in groups]
        lines.append("| " + " | ".join(map(str, [*place, megabytes(auto["swap"]), *swaps, *speeds])) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build", help="build folder")
    parser.add_argument("--quick", action="store_true", help="small models")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--devices", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--memory", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4],
                        help="training state over the memory of all devices")
    parser.add_argument("--write", type=pathlib.Path, help="file whose tables are replaced")
    arguments = parser.parse_args()
    results, states = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments.build.resolve(), folder)
        for name in arguments.models:
            entry = MODELS[name]
            model = os.path.join(folder, f"{name}.onnx")
            bench.run(sys.executable, HERE / "make_models.py", name, model,
                      *entry["quick" if arguments.quick else "full"])
            for memory in arguments.memory:
                for devices in arguments.devices:
                    for schedule, microbatch, recompute, flags in configurations(devices):
                        row = bench.measure(model, entry["batch"], devices, memory, flags)
                        results[name, memory, devices, schedule, microbatch, recompute] = row
                        states[name] = row["state"] if isinstance(row, dict) else states.get(name)
                        print(name, memory, devices, schedule, microbatch, recompute, row, flush=True, file=sys.stderr)
    text = "\n".join([*(f"{name}: {state / 1e6:.1f} MB of training state, batch {MODELS[name]['batch']}."
                        for name, state in states.items() if state), "", *comparison(results), "", *table(results)])
    print(text)
    if arguments.write:
        before, rest = arguments.write.read_text().split(MARKERS[0])
        after = rest.split(MARKERS[1])[1]
        arguments.write.write_text(f"{before}{MARKERS[0]}\n{text}\n{MARKERS[1]}{after}")


if __name__ == "__main__":
    main()
