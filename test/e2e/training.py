"""What the checks of whole models share: compiling, five steps of training, and what they leave, as bytes."""
import json, os, shutil, subprocess, tempfile

import numpy as np

from check_golden import read_losses, read_safetensors

DONE, REFUSED, DOES_NOT_FIT = 0, 1, 3
HOST_CONSTANT = 64 << 20  # what a process may have beside what is known before the run (docs/Runtime.md)


def call(command, expected=DONE, timeout=600):
    """Runs a command; RuntimeError with its last words unless it exits as expected."""
    p = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)
    if p.returncode != expected:
        raise RuntimeError(f"exit {p.returncode}, expected {expected}: {' '.join(map(str, command))}\n"
                           f"{(p.stderr or p.stdout)[-2000:]}")
    return p


class Model:
    """A golden model with its batch as a file, in a folder that is removed at the end."""

    def __init__(self, harmonyc, folder, optimizer="adamw", target="host"):
        self.harmonyc, self.folder, self.optimizer = harmonyc, folder, optimizer
        self.name = os.path.basename(os.path.normpath(folder))
        with open(os.path.join(folder, "manifest.json")) as f:
            self.batch = json.load(f)["batch"]
        golden = read_safetensors(os.path.join(folder, "golden.safetensors"))
        self.work = tempfile.mkdtemp(prefix="training-")
        self.data = os.path.join(self.work, "data.npz")
        np.savez(self.data, **{k[len("input/"):]: v for k, v in golden.items() if k.startswith("input/")})
        self.flags = [os.path.join(folder, "train.onnx"), "--batch", str(self.batch), "--optimizer", optimizer,
                      "--target", target]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def plan(self, *flags):
        """The plan's JSON, or None where it does not fit; then 'self.refusal' says why."""
        file = self.path("plan.json")
        command = [self.harmonyc, "plan", *self.flags, "--plan-out", file, *map(str, flags)]
        p = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if p.returncode == DOES_NOT_FIT:
            self.refusal = p.stderr
            return None
        if p.returncode:
            raise RuntimeError(f"exit {p.returncode}: {' '.join(command)}\n{p.stderr[-2000:]}")
        with open(file) as f:
            return json.load(f)

    def compile(self, *flags):
        """The executable and the plan's JSON."""
        exe, file = self.path("train"), self.path("plan.json")
        call([self.harmonyc, "compile", *self.flags, "-o", exe, "--plan-out", file, *flags])
        with open(file) as f:
            return exe, json.load(f)

    def train(self, exe, *flags, timeout=600):
        """Losses, first gradients and weights of five steps, as bytes, and what was printed.

        The log's bytes and peaks of every step go to 'self.log'.
        """
        out = self.path("out")
        os.makedirs(out, exist_ok=True)
        try:
            p = call([exe, "--data", self.data, "--steps", "5", "--no-shuffle", "--lr", "1e-3",
                      "--log", out + "/log.jsonl", "--save", out + "/weights.safetensors",
                      "--dump-grads", out + "/grads.safetensors", *flags], timeout=timeout)
            arrays = {**read_safetensors(out + "/weights.safetensors"),
                      **{"grad " + k: v for k, v in read_safetensors(out + "/grads.safetensors").items()}}
            result = {k: v.tobytes() for k, v in arrays.items()}
            result["losses"] = repr(read_losses(out + "/log.jsonl"))
            with open(out + "/log.jsonl") as f:
                self.log = [row for row in map(json.loads, f) if "step_s" in row]
            return result, p.stdout + p.stderr
        finally:
            shutil.rmtree(out)

    def check_evidence(self, summary):
        """What the run moved in its last step and how high it reached are what the plan says; so is host memory, up to
        a constant."""
        last = self.log[-1]
        for key in ("swap_in_bytes", "swap_out_bytes", "peer_bytes", "input_bytes"):
            if last[key] != summary[key]:
                raise RuntimeError(f"{key}: the run has {last[key]}, the plan {summary[key]}")
        if last["host_peak_bytes"] > last["host_planned_bytes"] + HOST_CONSTANT:
            raise RuntimeError(f"the process has {last['host_peak_bytes']} bytes, {last['host_planned_bytes']} planned")
        if last["peak_bytes"] != summary["peak_bytes"]:
            raise RuntimeError(f"peak_bytes: the run has {last['peak_bytes']}, the plan {summary['peak_bytes']}")


def require_equal(reference, result):
    different = sorted(k for k in reference if result.get(k) != reference[k])
    if different or result.keys() != reference.keys():
        raise RuntimeError(f"{len(different)} of {len(reference)} differ, first {different[:3]}")


def differences(loss, weights):
    """Central differences of `loss`, a function of weights in double precision."""
    weights = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    gradients = {}
    for name, value in weights.items():
        gradients[name] = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = dict(weights, **{name: value.copy()})
                moved[name][index] += step
                ends.append(loss(moved))
            gradients[name][index] = (ends[0] - ends[1]) / 2e-6
    return gradients


def report(cases):
    """Runs pairs of a name and a function that lists what is wrong, and prints what came out. The exit status."""
    failed = 0
    for name, run in cases:
        try:
            bad = run()
        except RuntimeError as error:
            bad = [str(error)]
        failed += bool(bad)
        print(f"{'FAIL' if bad else 'ok  '} {name}", flush=True)
        for line in bad:
            print("    " + line)
    return 1 if failed else 0
