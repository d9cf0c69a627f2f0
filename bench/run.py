#!/usr/bin/env python3
"""Measures training steps against what the machine can do, all in one run.

    bench/run.py [--build build] [--rounds 3] [--quick] [--models transformer,perceptron,convolutional]
                 [--write docs/Performance.md]

Makes a GPT-2-like transformer, a perceptron and a VGG-like network, compiles them for every instruction set of this processor, and in
each round measures the ceiling of the product library, the bandwidth of memory and the training steps one after the
other, with one and with two threads. The best of the rounds counts, since other work on the machine only ever makes
things slower; the share of the ceiling is given as the median over rounds as well, each from measurements a few
seconds apart. Prints the tables of docs/Performance.md; --write puts them there between its markers. Needs NumPy and
the targets harmonyc and gemm_ceiling.
"""
import argparse, json, pathlib, re, statistics, subprocess, sys, tempfile

import make_models
import measuring

HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = ("gemm", "pointwise", "row", "column", "gather", "copy", "update", "transfers")
MARKERS = ("<!-- tables of bench/run.py -->", "<!-- end of tables -->")


class Transformer:
    name, batch, flags = "transformer", 8, []

    def __init__(self, quick):
        self.layers = 2 if quick else 6
        self.hidden, self.heads, self.length, self.vocabulary = 384, 6, 128, 8192

    def describe(self):
        return (f"GPT-2-like: {self.layers} layers, hidden {self.hidden}, {self.heads} heads, {self.length} tokens, "
                f"vocabulary {self.vocabulary}, batch {self.batch}")

    def make(self, path):
        make_models.make_gpt(path, self.layers, self.hidden, self.heads, self.length, self.vocabulary, seed=0)

    def flops(self):
        """Of the products of a step, masked attention counted in full; forward once, backward twice."""
        tokens = self.batch * self.length
        linear = 2 * tokens * (12 * self.hidden ** 2 * self.layers + self.vocabulary * self.hidden)
        attention = 4 * tokens * self.length * self.hidden * self.layers
        return 3 * (linear + attention)


class Perceptron:
    name, batch = "perceptron", 256
    flags = ["--optimizer-on", "device"]

    def __init__(self, quick):
        self.layers, self.inputs, self.hidden, self.classes = 2 if quick else 4, 784, 2048, 10

    def describe(self):
        return (f"perceptron: {self.layers} hidden layers of {self.hidden}, {self.inputs} inputs, "
                f"{self.classes} classes, batch {self.batch}")

    def make(self, path):
        make_models.make_mlp(path, self.layers, self.inputs, self.hidden, self.classes, seed=0)

    def flops(self):
        first = self.inputs * self.hidden
        others = self.hidden ** 2 * (self.layers - 1) + self.hidden * self.classes
        return 2 * self.batch * (2 * first + 3 * others)  # the inputs need no gradient


class Convolutional:
    name, batch, flags = "convolutional", 32, []

    def __init__(self, quick):
        self.stages, self.convolutions, self.width, self.image, self.hidden, self.classes = 5, 2 if quick else 5, 32, \
            32, 256, 10

    def describe(self):
        return (f"VGG-like: {self.stages} stages of {self.convolutions} convolutions, {self.width} to "
                f"{self.width * min(2 ** (self.stages - 1), 8)} channels, images of {self.image} x {self.image}, "
                f"batch {self.batch}")

    def make(self, path):
        make_models.make_vgg(path, self.stages, self.convolutions, self.width, self.image, self.hidden, self.classes, seed=0)

    def flops(self):
        total, channels, size = 0, 3, self.image
        for stage in range(self.stages):
            out = self.width * min(2 ** stage, 8)
            for i in range(self.convolutions):
                # The image itself needs no gradient.
                total += (2 if channels == 3 else 3) * size ** 2 * 9 * channels * out
                channels = out
            size //= 2
        return 2 * self.batch * (total + 3 * (channels * size ** 2 + self.classes) * self.hidden)


MODELS = {model.name: model for model in (Transformer, Perceptron, Convolutional)}


def run(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nends with {result.returncode}\n{result.stderr}")
    return result.stdout + result.stderr


def measure_steps(executable, steps, threads, log):
    """Returns the seconds of the fastest step and the share of each kernel family."""
    output = run([executable, "--synthetic", "--steps", steps, "--threads", threads, "--time-report", "--log", log])
    times = [json.loads(line)["step_s"] for line in open(log) if '"step_s"' in line]
    seconds = {name: float(value) for name, value in re.findall(r"^  (\w+) +([\d.]+) ", output, re.M)}
    total = sum(seconds.get(family, 0) for family in FAMILIES)
    return min(times[1:]), {family: seconds.get(family, 0) / total for family in FAMILIES}


def measure(arguments):
    build = arguments.build.resolve()
    harmonyc, ceiling = build / "bin/harmonyc", build / "bin/gemm_ceiling"
    has_avx512 = all(flag in open("/proc/cpuinfo").read() for flag in ("avx512f", "avx512bw", "avx512dq", "avx512vl"))
    isas = (["avx512"] if has_avx512 else []) + ["avx2"]
    models = [MODELS[name](arguments.quick) for name in arguments.models]
    ceilings, steps, ratios = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for model in models:
            model.make(str(folder / f"{model.name}.onnx"))
            for isa in isas:
                run([harmonyc, "compile", folder / f"{model.name}.onnx", "--batch", model.batch, "--target",
                     f"host:{isa}", *model.flags, "-o", folder / f"{model.name}.{isa}"])
        for _ in range(arguments.rounds):
            for isa in isas:
                for threads in (1, 2):
                    report = json.loads(run([ceiling, "--isa", isa, "--threads", threads, "--seconds", 0.2, "--triad"]))
                    old = ceilings.get((isa, threads), report)
                    ceilings[isa, threads] = {key: max(old[key], report[key])
                                              for key in ("gemm_gflops", "triad_gbytes")}
                    for model in models:
                        new = measure_steps(folder / f"{model.name}.{isa}", 5, threads, folder / "log.jsonl")
                        key = model.name, isa, threads
                        steps[key] = min(steps.get(key, new), new, key=lambda result: result[0])
                        ratios.setdefault(key, []).append(
                            model.flops() / new[0] / 1e9 / report["gemm_gflops"])
    return models, ceilings, steps, {key: statistics.median(values) for key, values in ratios.items()}


def tables(models, ceilings, steps, ratios):
    lines = ["| instruction set | threads | product library, GFLOP/s | triad, GB/s |", "| --- | --- | --- | --- |"]
    for (isa, threads), ceiling in ceilings.items():
        lines.append(f"| {isa} | {threads} | {ceiling['gemm_gflops']:.0f} | {ceiling['triad_gbytes']:.1f} |")
    for model in models:
        lines += ["", f"{model.describe()}; {model.flops() / 1e9:.1f} GFLOP a step:", "",
                  "| instruction set | threads | step, ms | GFLOP/s | of the ceiling | median | " +
                  " | ".join(FAMILIES) + " |", "| " + " | ".join(["---"] * (6 + len(FAMILIES))) + " |"]
        for (name, isa, threads), (seconds, shares) in steps.items():
            if name != model.name:
                continue
            rate = model.flops() / seconds / 1e9
            cells = [isa, threads, f"{seconds * 1e3:.0f}", f"{rate:.0f}",
                     f"{100 * rate / ceilings[isa, threads]['gemm_gflops']:.0f} %",
                     f"{100 * ratios[name, isa, threads]:.0f} %"]
            cells += [f"{100 * shares[family]:.1f} %" for family in FAMILIES]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="measure training steps against the machine's ceiling")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of everything; the best counts")
    parser.add_argument("--quick", action="store_true", help="fewer layers")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS), help="some of them")
    parser.add_argument("--write", type=pathlib.Path, help="file whose tables are replaced")
    arguments = parser.parse_args()
    text = tables(*measure(arguments))
    print(text)
    if arguments.write:
        measuring.replace_between(arguments.write, MARKERS, text)


if __name__ == "__main__":
    main()
