#!/usr/bin/env python3
"""The host store on disk: equal bits in whatever memory, and refusals that tell what is needed.

    check_disk.py --harmonyc build/bin/harmonyc [--devices 1,3] MODEL_DIR ...

Compiles each model in the least memory of its devices, so that most of the state is in the host store, and trains and
evaluates with the store on disk: in the least memory that the executable asks for, in a third of the store, and with
room for all of it; in hostile orders, with bytes that are away unreadable; by flags of the compiler. Losses, gradients, weights, outputs and the
evaluation must be those of the run in memory, bit for bit. Where memory is short, the disk must have been used.
"""
import argparse, os, re, sys

from check_golden import read_safetensors
from training import DOES_NOT_FIT, Model, call, report, require_equal

FAILURE, USAGE = 1, 2


def has_outputs(model, exe):
    try:
        call([exe, "--eval-only", "--val", model.data, "--outputs", model.path("outputs.safetensors")])
        return True
    except RuntimeError as error:
        if "no outputs beside the loss" in str(error):
            return False
        raise


def evaluate(model, exe, *flags):
    out = model.path("outputs.safetensors")
    p = call([exe, "--eval-only", "--val", model.data, *(["--outputs", out] if model.outputs else []), *flags])
    result = {k: v.tobytes() for k, v in read_safetensors(out).items()} if model.outputs else {}
    result["text"] = [line for line in p.stdout.splitlines() if "loss" in line]
    return result


def check(model, devices):
    bad = []
    flags = ["--devices", str(devices)]
    summary = model.plan(*flags)["summary"]
    exe, plan = model.compile(*flags, "--device-memory", str(summary["min_device_bytes"]))
    store = plan["summary"]["host_bytes"]
    disk = ["--disk-path", model.work]
    reference, _ = model.train(exe)
    model.outputs = has_outputs(model, exe)
    evaluated = evaluate(model, exe)

    data = ["--data", model.data, "--steps", "1"]
    refusal = call([exe, *data, *disk, "--disk-memory", "1"], DOES_NOT_FIT).stderr
    least = int(re.search(r"--disk-memory is 1 bytes, one command of this program needs (\d+)", refusal)[1])
    call([exe, *data, *disk, "--disk-memory", str(least - 1)], DOES_NOT_FIT)
    text = call([exe, *data, "--disk-path", model.path("none")], FAILURE).stderr
    if "none: no file can be made there: No such file or directory" not in text:
        bad.append(f"a folder that is not there: {text}")
    text = call([exe, *data, "--disk-memory", "1MiB"], USAGE).stderr
    if "--disk-memory needs --disk-path DIR" not in text:
        bad.append(f"--disk-memory alone: {text}")

    third = max(least, store // 3)
    for what in ([f"--disk-memory={least}"], [f"--disk-memory={third}"], [],
                 [f"--disk-memory={least}", "--paranoid", "--poison"],
                 [f"--disk-memory={third}", "--count-allocations"],
                 *([f"--disk-memory={memory}", "--adversarial", str(seed)]
                   for seed in range(3) for memory in (least, third)), ["--disk-paging"]):
        try:
            result, _ = model.train(exe, *disk, *what)
            require_equal(reference, result)
            require_equal(evaluated, evaluate(model, exe, *disk, *(w for w in what if w != "--count-allocations")))
            memory = next((int(w.split("=")[1]) for w in what if "=" in w), store)
            read = model.log[-1].get("disk_read_bytes")
            if "--disk-paging" not in what and (read > 0) != (memory + 2 * 4096 < store):
                bad.append(f"{what}: read {read} bytes in a step, store {store}")
        except RuntimeError as error:
            bad.append(f"{what}: {error}")
        if left := [name for name in os.listdir(model.work) if "harmony-store" in name]:
            bad.append(f"{what}: left {left}")
    # The flags of the compiler are defaults.
    exe, _ = model.compile(*flags, "--device-memory", str(summary["min_device_bytes"]), "--host-memory", str(third),
                           *disk)
    for more, memory in ([], third), (["--disk-memory", str(least)], least):
        result, text = model.train(exe, *more)
        if f" bytes in {model.work}, " not in text:
            bad.append(f"compiled with --disk-path: {text}")
        if not 0 < model.log[-1]["disk_read_bytes"] + (memory + 2 * 4096 >= store):
            bad.append(f"compiled with --disk-path: read nothing in memory of {memory} bytes")
        if result != reference:
            bad.append("compiled with --disk-path: other bits")
    print(f"{model.name}: {devices} devices, host store {store} bytes, least memory of it {least}", flush=True)
    return bad


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("--devices", type=lambda text: list(map(int, text.split(","))), default=[1, 3])
    ap.add_argument("model_dir", nargs="+")
    args = ap.parse_args()

    def run(folder, devices):
        with Model(args.harmonyc, folder) as model:
            return check(model, devices)

    return report([(f"{folder} {devices}", lambda folder=folder, devices=devices: run(folder, devices))
                   for folder in args.model_dir for devices in args.devices])


if __name__ == "__main__":
    sys.exit(main())
