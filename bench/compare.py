#!/usr/bin/env python3
"""Trains a residual network, an encoder and a decoder with harmonyc and with its peers, in turns, all in one run.

    bench/compare.py [--build build] [--rounds 3] [--threads 1,2] [--models resnet,bert,gpt] [--quick]
                     [--pytorch PYTHON] [--jax PYTHON] [--onnxruntime PYTHON] [--write docs/Performance.md]

PYTHON is an interpreter whose environment has the packages that bench/peers says; a peer whose environment is not
given, or lacks them, is left out, and the script says so:

    python3 -m venv torch && torch/bin/pip install torch numpy
    python3 -m venv jax && jax/bin/pip install jax optax
    python3.11 -m venv ort
    ort/bin/pip install onnxruntime-training-cpu==1.19.2 'numpy<2' onnx==1.16.2 'protobuf<5' torch

Every peer trains the same model with AdamW on one batch of random data. Processes are bound to as many processors as
there are threads. Of the rounds the fastest step counts; "first step" is the wall clock of the first round from the
start of the process to the end of its first step, compilation included, with empty caches; memory is the peak of
resident pages of the process that trains. Prints tables; --write puts them between the markers of docs/Performance.md.
Needs NumPy and the target harmonyc.
"""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile, time

import make_models
import measuring

HERE = pathlib.Path(__file__).resolve().parent
MARKERS = ("<!-- tables of bench/compare.py -->", "<!-- end of tables of bench/compare.py -->")
STEPS = 6


class Model:
    def __init__(self, name, make, batch, title, sizes, quick):
        self.name, self.make, self.batch, self.title = name, make, batch, title
        self.sizes = {**sizes, **quick}

    def describe(self):
        return f"{self.title}: " + ", ".join(f"{key} {value}" for key, value in self.sizes.items()) + \
            f", batch {self.batch}"


def models(quick):
    def of(*arguments, **less):
        return Model(*arguments, less if quick else {})
    transformer = dict(layers=6, hidden=384, heads=6, length=128, vocabulary=8192)
    return {model.name: model for model in (
        of("resnet", make_models.make_resnet, 8, "ResNet-18", dict(width=64, image=224, classes=1000), width=8,
           image=64),
        of("bert", make_models.make_bert, 8, "BERT-like", {**transformer, "classes": 2}, layers=1, hidden=96),
        of("gpt", make_models.make_gpt, 8, "GPT-2-like", transformer, layers=1, hidden=96))}


class Harmonyc:
    """Compiles once for all rounds; the first step counts from the start of the compiler."""
    name = "harmonyc"

    def __init__(self, build, folder):
        self.build, self.folder, self.compiled = build, folder, {}

    def missing(self):
        path = self.build / "bin/harmonyc"
        return "" if path.exists() else f"{path} is not built"

    def run(self, model, path, threads):
        executable = self.folder / f"{model.name}.executable"
        if model.name not in self.compiled:
            self.compiled[model.name] = measuring.run([self.build / "bin/harmonyc", "compile", path, "--batch",
                                                       model.batch, "-o", executable]).wall
        train = ["taskset", "-c", processors(threads), executable, "--synthetic", "--lr", "1e-4", "--threads", threads]
        first = measuring.run([*train, "--steps", 1]).wall + self.compiled[model.name]
        log = self.folder / "log.jsonl"
        run = measuring.run([*train, "--steps", STEPS, "--log", log])
        times = [json.loads(line)["step_s"] for line in log.read_text().splitlines() if '"step_s"' in line]
        return dict(step=min(times[1:]), first=first, resident=run.resident)


class Peer:
    def __init__(self, name, script, python, modules, folder, **job):
        self.name, self.script, self.python, self.modules = name, HERE / "peers" / script, python, modules
        self.folder, self.job = folder, job

    def missing(self):
        if not self.python:
            return "no environment is given"
        command = [self.python, "-c", "; ".join(f"import {module}" for module in self.modules)]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.stderr.strip().splitlines()[-1] if result.returncode else ""

    def run(self, model, path, threads):
        job = dict(self.job, model=model.name, sizes=model.sizes, batch=model.batch, steps=STEPS, threads=threads,
                   path=str(path), begin=time.time())
        # Caches of compilers stay over the rounds; those of other runs do not count.
        environment = {"OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_CACHE_DIR": str(self.folder / f"cache{threads}"),
                       "JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}
        run = measuring.run(["taskset", "-c", processors(threads), self.python, self.script, json.dumps(job)],
                            environment)
        result = json.loads(re.findall(r"^\{.*\}$", run.output, re.M)[-1])
        return dict(step=result["step"], first=result["first"], resident=run.resident, losses=result["losses"])


def processors(threads):
    """The first that this process may run on, as taskset takes them."""
    return ",".join(str(number) for number in sorted(os.sched_getaffinity(0))[:threads])


def measure(arguments, folder):
    chosen = [models(arguments.quick)[name] for name in arguments.models]
    # ONNX Runtime has no gradient of some of the newer operators, so it gets the long form.
    all_peers = [Harmonyc(arguments.build.resolve(), folder),
                 Peer("PyTorch, eager", "pytorch.py", arguments.pytorch, ["torch"], folder, compile=False),
                 Peer("PyTorch, compiled", "pytorch.py", arguments.pytorch, ["torch"], folder, compile=True),
                 Peer("JAX", "jaxcpu.py", arguments.jax, ["jax", "optax"], folder),
                 Peer("ONNX Runtime", "ort.py", arguments.onnxruntime, ["onnx", "onnxruntime.training.artifacts"],
                      folder)]
    peers = []
    for peer in all_peers:
        if arguments.eager and peer.name == "PyTorch, compiled":
            print(f"{peer.name} is left out: --eager", file=sys.stderr)
        elif reason := peer.missing():
            print(f"{peer.name} is left out: {reason}", file=sys.stderr)
        else:
            peers.append(peer)
    results = {}
    for model in chosen:
        short = folder / f"{model.name}.onnx"
        model.make(str(short), **model.sizes, seed=0)
        long = short
        if model.name != "resnet":
            long = folder / f"{model.name}.long.onnx"
            model.make(str(long), **model.sizes, seed=0, long=1)
        for round_number in range(arguments.rounds):
            for threads in arguments.threads:
                for peer in peers:
                    path = long if peer.name == "ONNX Runtime" else short
                    new = peer.run(model, path, threads)
                    print(f"round {round_number + 1}, {model.name}, {threads} threads, {peer.name}: {new}",
                          file=sys.stderr)
                    old = results.setdefault((model.name, threads, peer.name), new)
                    old["step"] = min(old["step"], new["step"])
                    old["resident"] = max(old["resident"], new["resident"])
    return chosen, peers, results


def tables(chosen, peers, results, threads):
    parts = []
    for model in chosen:
        rows = []
        for count in threads:
            own = results.get((model.name, count, "harmonyc"))
            for peer in peers:
                result = results[model.name, count, peer.name]
                ratios = ["", "", ""]
                if own and peer.name != "harmonyc":
                    ratios = [f"{result[key] / own[key]:.2f}" for key in ("step", "resident", "first")]
                rows.append([count, peer.name, f"{result['step'] * 1e3:.0f}", ratios[0],
                             f"{result['resident'] / 2**20:.0f}", ratios[1], f"{result['first']:.1f}", ratios[2]])
        parts.append(f"{model.describe()}:\n\n" +
                     measuring.table(["threads", "trained by", "step, ms", "ratio", "resident, MiB", "ratio",
                                      "first step, s", "ratio"], rows))
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description="compare training steps with other frameworks")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of everything; the best counts")
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--models", type=lambda text: text.split(","), default=["resnet", "bert", "gpt"])
    parser.add_argument("--eager", action="store_true", help="without torch.compile, which takes minutes to compile")
    parser.add_argument("--quick", action="store_true", help="small models")
    for peer in ("pytorch", "jax", "onnxruntime"):
        parser.add_argument(f"--{peer}", help="Python of an environment that has it")
    parser.add_argument("--write", type=pathlib.Path, help="file whose tables are replaced")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = tables(*measure(arguments, pathlib.Path(folder)), arguments.threads)
    print(text)
    if arguments.write:
        measuring.replace_between(arguments.write, MARKERS, text)


if __name__ == "__main__":
    main()
