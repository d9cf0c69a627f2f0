#!/usr/bin/env python3
"""Compiles GPT-2 XL at several depths and tells what each stage takes.

    bench/scale.py --folder DIR [--build build] [--layers 12,48,96] [--forms short,long] [--devices 1,4] [--tiny]
                   [--write docs/Performance.md]

Hidden 1600, 25 heads, vocabulary 50257, length 1024, random weights in a file beside the model (1.5 billion of them at
48 layers, 6 GB). Models are made in the folder where they are not there yet and stay: 12, 48 and 96 layers in both
forms need 40 GB. The short form has one operator for each norm and gelu; the long form is what PyTorch's older exporter
writes (bench/make_models.py), six times the nodes. Times are those of the processor, which other work on the machine
disturbs less than the wall clock; memory is the peak of pages that belong to no file. --tiny takes models of a few
kilobytes, to try the script. Ends with 1 if the kernels depend on the depth. Needs NumPy and the target harmonyc.
"""
import argparse, pathlib, re, sys

import make_models
import measuring

HERE = pathlib.Path(__file__).resolve().parent
MARKERS = ("<!-- tables of bench/scale.py -->", "<!-- end of tables of bench/scale.py -->")
STAGES = ("import", "normalize", "layers", "differentiate", "plan", "schedule", "memory", "codegen", "write")
FULL = dict(hidden=1600, heads=25, length=1024, vocabulary=50257, seed=0)
TINY = dict(hidden=32, heads=2, length=16, vocabulary=64, seed=0)


def make(folder, form, layers, sizes):
    path = folder / f"{form}-{layers}{'' if sizes is FULL else '-tiny'}.onnx"
    if not path.exists():
        # The data come first: a model that is there is complete.
        make_models.make_gpt(str(path), layers, external=1, long=int(form == "long"), **sizes)
    return path


def stage_times(output):
    """Seconds of the processor by stage, from --time-report."""
    return {name: float(seconds) for seconds, name in re.findall(r"([\d.]+) s of the processor +(\w+)$", output, re.M)}


def kernels(executable):
    """Names of the kernels in an executable: a family and the hash of the code."""
    return set(re.findall(rb"(?<=\0)[a-z_]+_[0-9a-f]{16}(?=\0)", executable.read_bytes()))


def measure(arguments):
    harmonyc = arguments.build.resolve() / "bin/harmonyc"
    sizes = TINY if arguments.tiny else FULL
    memory = "1MiB" if arguments.tiny else "8GiB"
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    rows, names, several = [], {}, []
    for form in arguments.forms:
        for layers in arguments.layers:
            model, executable = make(folder, form, layers, sizes), folder / "executable"
            flags = ["--batch", 1, "--device-memory", memory, "--time-report"]
            text = measuring.run([harmonyc, "compile", model, "-o", executable, "--batch", 1, "--stop-after",
                                  "import"]).output
            nodes = text.count("onnx.node ")
            whole = measuring.run([harmonyc, "compile", model, "-o", executable, "--weights-from-model", *flags])
            planned = measuring.run([harmonyc, "plan", model, *flags])
            seconds = stage_times(whole.output)
            names[form, layers] = kernels(executable)
            cells = [seconds["import"], seconds["normalize"], seconds["layers"] + seconds["differentiate"],
                     seconds["plan"], seconds["schedule"] + seconds["memory"], seconds["codegen"], seconds["write"],
                     whole.processor]
            rows.append([form, layers, nodes, *(f"{cell:.2f}" for cell in cells), f"{whole.wall:.1f}",
                         f"{planned.anonymous / 2**20:.0f}", f"{whole.anonymous / 2**20:.0f}",
                         len(names[form, layers]), f"{executable.stat().st_size / 2**20:.1f}"])
            print(*rows[-1], file=sys.stderr)
            for devices in arguments.devices:
                report = measuring.run([harmonyc, "plan", model, "--batch", 8, "--devices", devices,
                                        "--device-memory", memory, "--time-report"])
                several.append([form, layers, devices, f"{stage_times(report.output)['plan']:.2f}",
                                f"{report.anonymous / 2**20:.0f}"])
                print(*several[-1], file=sys.stderr)
            executable.unlink()
            (folder / "executable.weights.safetensors").unlink()
    for form in arguments.forms:
        sets = [names[form, layers] for layers in arguments.layers]
        if any(found != sets[0] for found in sets):
            sys.exit(f"{form}: kernels differ between depths: "
                     f"{sorted(name.decode() for name in set.union(*sets) - set.intersection(*sets))}")
    return rows, several


def main():
    parser = argparse.ArgumentParser(description="measure the compiler on deep models")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build", help="build folder")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where models are, or are put")
    parser.add_argument("--layers", type=lambda text: [int(part) for part in text.split(",")], default=[12, 48, 96])
    parser.add_argument("--forms", type=lambda text: text.split(","), default=["short", "long"])
    parser.add_argument("--devices", type=lambda text: [int(part) for part in text.split(",")], default=[1, 4],
                        help="counts of devices to plan for")
    parser.add_argument("--tiny", action="store_true", help="small models")
    parser.add_argument("--write", type=pathlib.Path, help="file whose tables are replaced")
    arguments = parser.parse_args()
    rows, several = measure(arguments)
    text = measuring.table(["form", "layers", "nodes", "import, s", "normalize", "layers, autodiff", "plan",
                            "schedule", "codegen", "write", "all", "wall, s", "plan, MiB", "compile, MiB", "kernels",
                            "executable, MiB"], rows)
    text += "\n\nPlanning for devices of 8 GiB, batch 8:\n\n"
    text += measuring.table(["form", "layers", "devices", "plan, s", "memory, MiB"], several)
    print(text)
    if arguments.write:
        measuring.replace_between(arguments.write, MARKERS, text)


if __name__ == "__main__":
    main()
