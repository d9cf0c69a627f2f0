#!/usr/bin/env python3
"""Which form of schedule wins for GPTs of 1.5, 10 and 65 billion parameters on machines of eight devices, by how much.

    bench/forms.py [--build build] [--machines 8xh100-80g,8x4090-24g] [--models gpt-1.5b,gpt-10b,gpt-65b] [--batch 64]
                   [--write docs/Schedules.md]
    bench/forms.py --profile gpt-65b --machines 8xh100-80g > PROFILE.json

Profiles are made, not measured. A decoder layer of width h with a heads at sequence length s has 12 h^2 + 13 h
parameters and, for one sample, 24 s h^2 + 4 s^2 h FLOP forward; the head has 2 s h V. Backward takes twice as many, and
the profile's backward contains the recomputation. Products run at half of the device's peak in f32; beside them a layer
moves 34 s h + 4 a s^2 elements of four bytes forward (assumed), twice as many backward, at its memory's bandwidth. What
backward needs is 34 s h + 5 a s^2 bytes in half precision (Korthikanti et al., Reducing Activation Recomputation in
Large Transformer Models, 2022, section 4.1), twice that here. State is adamw's. The host updates 2 GB of parameters a
second, as in the profiles of Harmony's artifact.

Each cell is `harmonyc plan` with its form pinned, whose plan is verified; auto is the search's own choice. Needs the
target harmonyc.
"""
import argparse, json, pathlib, subprocess, sys, tempfile

import measuring

MARKERS = ("<!-- tables of bench/forms.py -->", "<!-- end of tables of bench/forms.py -->")
GB, VOCABULARY = 1e9, 50304
# layers, width, heads, sequence length
MODELS = {"gpt-1.5b": (48, 1600, 25, 1024), "gpt-10b": (50, 4096, 32, 1024), "gpt-65b": (80, 8192, 64, 2048)}
# FLOP/s in f32 and bytes/s of memory: compiler/Planner/Machine.cpp
MACHINES = {"8xh100-80g": (67e12, 3350e9), "8x4090-24g": (82.6e12, 1008e9), "harmony-1080ti": (11.3e12, 484e9)}
FORMS = {"auto": (), "ring": ("--schedule", "harmony-pp"), "data parallel": ("--schedule", "harmony-dp"),
         "ring, nothing stays": ("--schedule", "harmony-pp", "--residency", "none", "--recompute", "all"),
         "data parallel, nothing stays": ("--schedule", "harmony-dp", "--residency", "none", "--recompute", "all")}
SIZES = (1, 2, 4, 8, 16)


def profile(model, machine):
    layers, width, heads, length = MODELS[model]
    flops, bandwidth = MACHINES[machine]
    decoder = 12 * width * width + 13 * width
    # embedding, decoders, head, loss: parameters, FLOP, elements moved, elements saved, elements of the input
    parts = [(VOCABULARY * width + length * width, 0, 2 * length * width, 0, length)]
    parts += [(decoder, 24 * length * width**2 + 4 * length**2 * width, 34 * length * width + 4 * heads * length**2,
               17 * length * width + 5 * heads * length**2 // 2, length * width)] * layers
    parts += [(VOCABULARY * width, 2 * length * width * VOCABULARY, length * (width + VOCABULARY), 0, length * width),
              (0, 0, 4 * length * VOCABULARY, 0, length * VOCABULARY)]
    inputs = [4 * part[4] for part in parts]
    seconds = lambda part, u, times: u * times * (part[1] / (0.5 * flops) + 4 * part[2] / bandwidth)

    def peak(index, u, backward):
        parameters, _, _, saved, _ = parts[index]
        boundary = u * (inputs[index] + (inputs[index + 1] if index + 1 < len(parts) else 0))
        return (4 * parameters + boundary) * (2 if backward else 1) + (4 * saved * u if backward else 0)

    def samples(times, backward):
        return {str(u): {"t": [seconds(part, u, times) for part in parts],
                         "mem": [peak(index, u, backward) for index in range(len(parts))]} for u in SIZES}

    weights = [4 * part[0] for part in parts]
    return {"model": f"{model} on {machine}", "R": len(parts), "W_bytes": weights, "B_bytes": [0] * len(parts),
            "K_bytes": [2 * bytes for bytes in weights], "X_bytes_u1": inputs,
            "upd_cpu_sec": [bytes / (2 * GB) for bytes in weights],
            "fwd": samples(1, False), "bwd": samples(3, True)}


def plan(arguments, path, machine, flags):
    """The plan's summary; None where there is none, whose reason is printed."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "plan.json"
        command = [arguments.build / "bin/harmonyc", "plan", path, "--batch", arguments.batch, "--machine", machine,
                   "--plan-out", out, *flags]
        run = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if run.returncode:
            print(run.stderr.strip(), file=sys.stderr)
            return None
        return json.loads(out.read_text())["summary"]


def table(arguments):
    rows = []
    for machine in arguments.machines:
        for model in arguments.models:
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(profile(model, machine), file)
                file.flush()
                found = {form: plan(arguments, file.name, machine, flags) for form, flags in FORMS.items()}
            best = found["auto"]
            if not best:
                sys.exit(f"no plan of {model} on {machine}")
            rows.append([model, machine, f"{best['iteration_s']:.3f}", f"{best['distance']:.3f}", best["form"],
                         f"{(best['swap_in_bytes'] + best['swap_out_bytes']) / GB:.1f}", f"{best['peer_bytes'] / GB:.1f}",
                         *(f"{found[form]['iteration_s'] / best['iteration_s']:.2f}" if found[form] else "no plan"
                           for form in list(FORMS)[1:])])
            print(*rows[-1], file=sys.stderr, flush=True)
    return measuring.table(["model", "machine", "time, s", "time / LBd", "form that wins", "swapped, GB",
                            "between devices, GB", *(f"{form}: × time" for form in list(FORMS)[1:])], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    names = lambda text: text.split(",")
    parser.add_argument("--machines", type=names, default=["8xh100-80g", "8x4090-24g"])
    parser.add_argument("--models", type=names, default=list(MODELS))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--profile", choices=MODELS)
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.profile:
        print(json.dumps(profile(arguments.profile, arguments.machines[0])))
        return
    text = table(arguments)
    if arguments.write:
        measuring.replace_between(arguments.write, MARKERS, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
