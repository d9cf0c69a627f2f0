#!/usr/bin/env python3
"""Check that the least device memory that harmonyc plan reports is exact.

    check_capacity.py --harmonyc build/bin/harmonyc [--optimizer adamw|sgd] [--compile-flag=FLAG ...] MODEL_DIR ...

For every model: at min_device_bytes the model compiles, trains within the tolerances of check_golden.py and stays
within that memory; one byte less is refused with exit code 3 and both numbers; larger capacities have plans that
fit; min_device_bytes is at most 1.25 * bound_bytes, and the numbers are those printed for people.
"""
import argparse, json, os, re, subprocess, sys, tempfile

from training import DOES_NOT_FIT, report


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def check(args, model_dir, work):
    """Returns a list of complaints; empty when all holds."""
    with open(os.path.join(model_dir, "manifest.json")) as f:
        batch = json.load(f)["batch"]
    plan_file = os.path.join(work, "plan.json")
    flags = [os.path.join(model_dir, "train.onnx"), "--batch", str(batch), "--optimizer", args.optimizer,
             *args.compile_flag]

    def plan(*more):
        """The exit code, what was printed, and the summary where there is one."""
        if os.path.exists(plan_file):
            os.remove(plan_file)
        p = run([args.harmonyc, "plan", *flags, "--plan-out", plan_file, *more])
        if p.returncode:
            return p.returncode, p.stdout + p.stderr, None
        with open(plan_file) as f:
            return 0, p.stdout, json.load(f)["summary"]

    code, text, summary = plan()
    if code:
        return [f"plan without a limit: exit {code}: {text}"]
    least, bound = summary["min_device_bytes"], summary["bound_bytes"]
    bad = []
    printed = re.search(r"least device memory: (\d+) bytes; largest layer '.+': (\d+)", text)
    if not printed or (int(printed[1]), int(printed[2])) != (least, bound):
        bad.append(f"plan prints {printed and printed[0]!r}, the summary says {least} and {bound}")
    if least > 1.25 * bound:
        bad.append(f"min_device_bytes {least} is {least / bound:.3f} times the bound {bound}")

    for capacity in [least, least + 1, least + 64, *(int(least * f) for f in (1.03, 1.1, 1.37, 2, 5))]:
        code, text, at = plan("--device-memory", str(capacity))
        if code:
            bad.append(f"capacity {capacity}, least {least}: exit {code}: {text}")
        elif at["peak_bytes"][0] > capacity:
            bad.append(f"capacity {capacity}: the peak is {at['peak_bytes'][0]}")
        elif at["min_device_bytes"] != least:
            bad.append(f"capacity {capacity}: min_device_bytes is {at['min_device_bytes']}, without a limit {least}")

    code, text, _ = plan("--device-memory", str(least - 1))
    if code != DOES_NOT_FIT:
        bad.append(f"capacity {least - 1}: exit {code}, expected {DOES_NOT_FIT}")
    for number in (least, least - 1):
        if str(number) not in text:
            bad.append(f"capacity {least - 1}: {number} is not in the message: {text}")
    executable = os.path.join(work, "train")
    p = run([args.harmonyc, "compile", *flags, "--device-memory", str(least - 1), "-o", executable])
    if p.returncode != DOES_NOT_FIT or os.path.exists(executable):
        bad.append(f"compile at {least - 1}: exit {p.returncode}, executable {os.path.exists(executable)}")

    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_golden.py")
    p = run([sys.executable, golden, "--harmonyc", args.harmonyc, "--optimizer", args.optimizer,
             *(f"--compile-flag={flag}" for flag in args.compile_flag), f"--compile-flag=--device-memory={least}",
             model_dir])
    if p.returncode:
        bad.append(f"trained in {least} bytes: {p.stdout}{p.stderr}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harmonyc", required=True)
    parser.add_argument("--optimizer", default="adamw", choices=["adamw", "sgd"])
    parser.add_argument("--compile-flag", action="append", default=[])
    parser.add_argument("model_dir", nargs="+")
    args = parser.parse_args()

    def check_in_folder(model_dir):
        with tempfile.TemporaryDirectory(prefix="capacity-") as work:
            return check(args, model_dir, work)

    return report((os.path.basename(os.path.normpath(d)), lambda d=d: check_in_folder(d)) for d in args.model_dir)


if __name__ == "__main__":
    sys.exit(main())
