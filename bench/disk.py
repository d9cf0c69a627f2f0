#!/usr/bin/env python3
"""Training out of core on a machine without memory for the state: --disk-path against paging by the system.

    disk.py --harmonyc build/bin/harmonyc [--dir DIR] [--limit 256MiB] [--device-memory 64MiB] [--disk-memory 96MiB]
            [--batch 4] [--steps 4] [--repeats 2] [--layers 12 --hidden 512 --heads 8 --length 128 --vocabulary 8192]
            [--json FILE]

Both runs have the same executable and are in a memory cgroup of `--limit` bytes, page cache included; their host store
is a file in `--dir`. With `--disk-path` the executable moves what it needs; with `--disk-paging` the file is mapped and
the system pages it. In turn, `--repeats` times each; a step's time is the median of those after the first. The same
without a limit and with the store in memory is the third row. Bytes are those that the process caused to be read and
written (/proc/PID/io), over all steps; the disk's rates are measured before, past the page cache. Where no memory cgroup
can be made, says why and ends with 0. Needs NumPy for the model alone.
"""
import argparse, json, mmap, os, pathlib, re, statistics, subprocess, sys, tempfile, time

import measuring

MODEL = {"layers": 12, "hidden": 512, "heads": 8, "length": 128, "vocabulary": 8192}


def size(text):
    match = re.fullmatch(r"(\d+)(KiB|MiB|GiB)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not accepted: 256MiB, 2GiB and the like are")
    return int(match[1]) << {"KiB": 10, "MiB": 20, "GiB": 30}[match[2]]


class Group:
    """A memory cgroup below the one that this process is in."""

    def __init__(self, limit):
        """OSError where there cannot be one."""
        folder, self.version = self.own()
        self.path = folder / f"harmony-disk-{os.getpid()}"
        self.path.mkdir()
        try:
            if self.version == 1:
                (self.path / "memory.limit_in_bytes").write_text(str(limit))
            else:
                (self.path / "memory.max").write_text(str(limit))
                (self.path / "memory.swap.max").write_text("0")
        except OSError:
            self.remove()
            raise

    @staticmethod
    def own():
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, inner = line.split(":", 2)
            if number != "0" and "memory" not in controllers.split(","):
                continue
            for mount in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
                before, after = mount.split(" - ")
                root, point = before.split()[3:5]
                kind, _, options = after.split()[:3]
                if kind == "cgroup2" and number == "0":
                    folder = pathlib.Path(point) / os.path.relpath(inner, root)
                    if "memory" in (folder / "cgroup.controllers").read_text().split():
                        return folder, 2
                if kind == "cgroup" and number != "0" and "memory" in options.split(","):
                    return pathlib.Path(point) / os.path.relpath(inner, root), 1
        raise OSError("no memory controller is mounted")

    def remove(self):
        for _ in range(100):  # the last process may still be leaving
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)


def disk_rates(folder, total=512 << 20, block=2 << 20):
    """Bytes per second, read and written, one block at a time, past the page cache."""
    with tempfile.NamedTemporaryFile(dir=folder) as named:
        file = os.open(named.name, os.O_RDWR)
        os.posix_fallocate(file, 0, total)
        os.close(file)
        file = os.open(named.name, os.O_RDWR | getattr(os, "O_DIRECT", 0))
        buffer = mmap.mmap(-1, block)
        buffer.write(os.urandom(block))
        rates = []
        for move in (lambda at: os.pwrite(file, buffer, at), lambda at: os.preadv(file, [buffer], at)):
            begin = time.monotonic()
            for at in range(0, total, block):
                move(at)
            rates.append(total / (time.monotonic() - begin))
        os.close(file)
    return rates[1], rates[0]


def train(command, group, log):
    """Seconds of every step, and the bytes that the process has read and written."""
    enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group.path / "cgroup.procs")] if group else []
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*enter, *map(str, command), "--log", str(log)], stdout=output, stderr=output)
        moved = {}
        while process.poll() is None:
            try:
                text = pathlib.Path(f"/proc/{process.pid}/io").read_text()
                moved = {k: int(v) for k, v in re.findall(r"^(read_bytes|write_bytes): (\d+)", text, re.M)} or moved
            except OSError:
                pass
            time.sleep(0.02)
        if process.returncode:
            output.seek(0)
            sys.exit(f"{' '.join(map(str, command))}\nends with {process.returncode}\n{output.read().decode()[-3000:]}")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return [row["step_s"] for row in rows], moved.get("read_bytes", 0), moved.get("write_bytes", 0), rows[-1]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--dir", default=tempfile.gettempdir())
    ap.add_argument("--limit", type=size, default=size("256MiB"))
    ap.add_argument("--device-memory", default="64MiB")
    ap.add_argument("--disk-memory", default="96MiB")
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--repeats", type=int, default=2)
    ap.add_argument("--json")
    for name, value in MODEL.items():
        ap.add_argument(f"--{name}", type=int, default=value)
    args = ap.parse_args()
    try:
        group = Group(args.limit)
    except OSError as error:
        print(f"skipped: no memory cgroup can be made here: {error}")
        return 0
    try:
        with tempfile.TemporaryDirectory(dir=args.dir) as work:
            measure(args, group, pathlib.Path(work))
    finally:
        group.remove()
    return 0


def measure(args, group, work):
    model, exe, plan = work / "model.onnx", work / "train", work / "plan.json"
    here = pathlib.Path(__file__).resolve().parent
    measuring.run([sys.executable, here / "make_models.py", "gpt", model,
                   *(word for name in MODEL for word in (f"--{name}", getattr(args, name)))])
    measuring.run([args.harmonyc, "compile", model, "-o", exe, "--batch", args.batch, "--device-memory",
                   args.device_memory, "--plan-out", plan])
    summary = json.loads(plan.read_text())["summary"]
    os.sync()
    read, written = disk_rates(work)
    print(f"training state {summary['training_state_bytes'] / 2**20:.0f} MiB, host store "
          f"{summary['host_bytes'] / 2**20:.0f} MiB, limit {args.limit / 2**20:.0f} MiB; "
          f"disk reads {read / 1e9:.2f} GB/s, writes {written / 1e9:.2f} GB/s\n", flush=True)
    base = [exe, "--synthetic", "--steps", args.steps]
    kinds = {"--disk-path": ([*base, "--disk-path", work, "--disk-memory", args.disk_memory], group),
             "paging by the system": ([*base, "--disk-path", work, "--disk-paging"], group),
             "in memory, no limit": (base, None)}
    results = {name: [] for name in kinds}
    for _ in range(args.repeats):
        for name, (command, where) in kinds.items():
            results[name].append(train(command, where, work / "log.jsonl"))
    rows, speeds = [], {}
    for name, runs in results.items():
        step = statistics.median(seconds for run in runs for seconds in run[0][1:])
        speeds[name] = args.batch / step
        rows.append([name, f"{step:.2f}", f"{speeds[name]:.3f}",
                     *(f"{statistics.median(run[i] for run in runs) / args.steps / 2**20:.0f}" for i in (1, 2))])
    print(measuring.table(["host store", "s/step", "samples/s", "MiB read/step", "MiB written/step"], rows))
    losses = {run[3]["loss"] for runs in results.values() for run in runs}
    if len(losses) != 1:
        sys.exit(f"the losses differ: {losses}")
    disk, paging, memory = speeds.values()
    print(f"\nthroughput: {disk / paging:.2f} times that of paging, {disk / memory:.2f} of that in memory; "
          f"equal losses")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"rates": {"read": read, "write": written}, "summary": summary, "samples_per_s": speeds,
             "last": {name: runs[-1][3] for name, runs in results.items()}}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
