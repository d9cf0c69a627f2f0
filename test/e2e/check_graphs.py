#!/usr/bin/env python3
"""Train small graphs of unusual shape and compare loss, gradients and outputs with NumPy.

    check_graphs.py --harmonyc build/bin/harmonyc

Each model says its loss in NumPy, in double precision; gradients are central differences of it.
"""
import argparse, json, os, subprocess, sys, tempfile
import numpy as np
from check_golden import read_losses, read_safetensors
from training import differences, report

BATCH = 4
RANDOM = np.random.default_rng(7)
DATA = {"x": RANDOM.normal(size=(BATCH, 4)).astype(np.float32), "labels": RANDOM.integers(0, 3, BATCH)}
WEIGHTS = {"W1": RANDOM.normal(size=(4, 6)), "b1": RANDOM.normal(size=6), "W2": RANDOM.normal(size=(6, 3))}
WEIGHTS = {name: value.astype(np.float32) for name, value in WEIGHTS.items()}
CLASS_WEIGHTS = np.array([1.0, 2.0, 0.5])
FORWARD = "h = MatMul(x, W1)  a = Add(h, b1)  r = Relu(a)  z = MatMul(r, W2)  "


def forward(w):
    a = DATA["x"] @ w["W1"] + w["b1"]
    r = np.maximum(a, 0)
    return a, r, r @ w["W2"]


def rows(z):
    """Cross entropy of each row."""
    m = z.max(1, keepdims=True)
    return np.log(np.exp(z - m).sum(1)) + m[:, 0] - z[np.arange(len(z)), DATA["labels"]]


def weighted(w):
    of_row = CLASS_WEIGHTS[DATA["labels"]]
    return (rows(forward(w)[2]) * of_row).sum() / of_row.sum()


def mixed(w):
    """Products over the second of three axes."""
    _, r, _ = forward(w)
    return np.einsum("ni,nj,ik->njk", DATA["x"], r, w["W1"])


def pairs(w):
    a, _, _ = forward(w)
    return a[:, None, :] - a[:, :, None]


# name: graph after FORWARD, loss, flags, outputs
MODELS = {
    "a penalty of weights is a term of its own": (
        """l0 = SoftmaxCrossEntropyLoss(z, labels)  sq = Mul(W2, W2)  s = ReduceSum <keepdims = 0> (sq)
           c = Constant <value = float {0.25}> ()  p = Mul(s, c)  loss = Add(l0, p)""",
        lambda w: rows(forward(w)[2]).mean() + 0.25 * (w["W2"] ** 2).sum(), [], {}),
    "two terms with different denominators": (
        """l0 = SoftmaxCrossEntropyLoss(z, labels)  m = ReduceMean <keepdims = 0> (r)  loss = Add(l0, m)""",
        lambda w: rows(forward(w)[2]).mean() + forward(w)[1].mean(), [], {}),
    "class weights in the graph": (
        """k = Constant <value = float[3] {1.0, 2.0, 0.5}> ()  loss = SoftmaxCrossEntropyLoss(z, labels, k)""",
        weighted, [], {}),
    "class weights that are frozen": ("loss = SoftmaxCrossEntropyLoss(z, labels, k)", weighted, ["--freeze", "k"], {}),
    "a term that is a constant": (
        """l0 = SoftmaxCrossEntropyLoss(z, labels)  c = Constant <value = float {3.0}> ()  loss = Sub(c, l0)""",
        lambda w: 3 - rows(forward(w)[2]).mean(), [], {}),
    "maximum and minimum of rows": (
        """i = Constant <value = int64[1] {1}> ()  u = ReduceMax <keepdims = 0> (z, i)  v = ReduceMin <keepdims = 0> (a, i)
           p = Mul(u, v)  loss = ReduceMean <keepdims = 0> (p)""",
        lambda w: (forward(w)[2].max(1) * forward(w)[0].min(1)).mean(), [], {}),
    "log softmax outside of a cross entropy": (
        """s = LogSoftmax <axis = 1> (z)  p = Mul(s, s)  loss = ReduceMean <keepdims = 0> (p)""",
        lambda w: ((forward(w)[2] - np.log(np.exp(forward(w)[2]).sum(1, keepdims=True))) ** 2).mean(), [], {}),
    "the logarithm of a sum of exponentials": (
        """i = Constant <value = int64[1] {1}> ()  u = ReduceLogSumExp <keepdims = 0> (z, i)  loss = ReduceMean <keepdims = 0> (u)""",
        lambda w: np.log(np.exp(forward(w)[2]).sum(1)).mean(), [], {}),
    "a product over an axis in the middle": (
        """i = Constant <value = int64[1] {1}> ()  j = Constant <value = int64[1] {2}> ()
           x3 = Unsqueeze(x, j)  r3 = Unsqueeze(r, i)  o = Mul(x3, r3)
           t = Transpose <perm = [0, 2, 1]> (o)  y3 = MatMul(t, W1)  q = Mul(y3, y3)  m = ReduceMean <keepdims = 0> (q)
           l0 = SoftmaxCrossEntropyLoss(z, labels)  loss = Add(l0, m)""",
        lambda w: rows(forward(w)[2]).mean() + (mixed(w) ** 2).mean(), [], {}),
    "differences of all pairs, in both directions": (
        """i = Constant <value = int64[1] {1}> ()  j = Constant <value = int64[1] {2}> ()
           u = Unsqueeze(a, i)  v = Unsqueeze(a, j)  d = Sub(u, v)  q = Mul(d, d)  m = ReduceMean <keepdims = 0> (q)
           n = ReduceMax <keepdims = 0> (d, i)  p = Mul(n, a)  s = ReduceMean <keepdims = 0> (p)
           l0 = SoftmaxCrossEntropyLoss(z, labels)  l1 = Add(l0, m)  loss = Add(l1, s)""",
        lambda w: rows(forward(w)[2]).mean() + (pairs(w) ** 2).mean() + (pairs(w).max(1) * forward(w)[0]).mean(), [], {}),
    "an output of inputs alone": (
        "loss = SoftmaxCrossEntropyLoss(z, labels)  y = Mul(x, x)",
        lambda w: rows(forward(w)[2]).mean(), [], {"y": ("float[N,4]", lambda w: DATA["x"].astype(np.float64) ** 2)}),
    "an output that is a view": (
        """loss = SoftmaxCrossEntropyLoss(z, labels)  q = Constant <value = int64[3] {0, 2, 3}> ()
           r3 = Reshape(a, q)  y = Transpose <perm = [0, 2, 1]> (r3)""",
        lambda w: rows(forward(w)[2]).mean(), [],
        {"y": ("float[N,3,2]", lambda w: forward(w)[0].reshape(BATCH, 2, 3).transpose(0, 2, 1))}),
    "one value as two outputs": (
        "loss = SoftmaxCrossEntropyLoss(z, labels)  y = Identity(z)  y2 = Identity(z)",
        lambda w: rows(forward(w)[2]).mean(), [],
        {name: ("float[N,3]", lambda w: forward(w)[2]) for name in ("y", "y2")}),
}

# Samples are not independent: one microbatch.
WHOLE = {
    "every sample against all others": (
        """t = Transpose <perm = [1, 0]> (z)  s = MatMul(z, t)  c = Softmax <axis = 1> (s)  q = Mul(c, c)
           loss = ReduceMean <keepdims = 0> (q)""",
        lambda w: (softmax(forward(w)[2] @ forward(w)[2].T) ** 2).mean(), [], {}),
    "a contrastive loss, and its similarities": (
        """t = Transpose <perm = [1, 0]> (z)  y = MatMul(z, t)  b = Shape <end = 1> (z)  n = Squeeze(b)
           i = Constant <value = int64 {0}> ()  j = Constant <value = int64 {1}> ()  own = Range(i, n, j)
           loss = SoftmaxCrossEntropyLoss(y, own)""",
        lambda w: -np.log(np.diag(softmax(forward(w)[2] @ forward(w)[2].T))).mean(), [],
        {"y": ("float[N,N]", lambda w: forward(w)[2] @ forward(w)[2].T)}),
    "statistics of the batch, written out": (
        """o = Constant <value = int64[1] {0}> ()  m = ReduceMean (a, o)  d = Sub(a, m)  e = Mul(d, d)  v = ReduceMean (e, o)
           c = Constant <value = float {0.5}> ()  k = Add(v, c)  f = Sqrt(k)  g = Div(d, f)  u = MatMul(g, W2)  loss = SoftmaxCrossEntropyLoss(u, labels)""",
        lambda w: rows((forward(w)[0] - forward(w)[0].mean(0)) / np.sqrt(forward(w)[0].var(0) + 0.5) @ w["W2"]).mean(), [], {}),
    "the largest of the batch": (
        """l0 = SoftmaxCrossEntropyLoss(z, labels)  u = ReduceMax <keepdims = 0> (z)  loss = Add(l0, u)""",
        lambda w: rows(forward(w)[2]).mean() + forward(w)[2].max(), [], {}),
    "a loss over what depends on parameters": (
        """n = ReduceSum <keepdims = 0> (r)  q = Mul(z, z)  d = ReduceSum <keepdims = 0> (q)  loss = Div(n, d)""",
        lambda w: forward(w)[1].sum() / (forward(w)[2] ** 2).sum(), [], {}),
    "samples in reverse": (
        """s = Constant <value = int64[1] {-1}> ()  e = Constant <value = int64[1] {-100}> ()
           o = Constant <value = int64[1] {0}> ()  b = Slice(z, s, e, o, s)  p = Mul(b, z)  l0 = SoftmaxCrossEntropyLoss(p, labels)
           loss = Identity(l0)""",
        lambda w: rows(forward(w)[2] * forward(w)[2][::-1]).mean(), [], {}),
    "two halves of the batch": (
        """a1, a2 = Split <axis = 0, num_outputs = 2> (z)  d = Sub(a1, a2)  q = Mul(d, d)  s = ReduceMean <keepdims = 0> (q)
           l0 = SoftmaxCrossEntropyLoss(z, labels)  loss = Add(l0, s)""",
        lambda w: rows(forward(w)[2]).mean() + (np.subtract(*np.split(forward(w)[2], 2)) ** 2).mean(), [], {}),
}


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def text(graph, outputs):
    """The model in ONNX's text form."""
    def tensor(name, value):
        shape = ",".join(map(str, value.shape))
        return f"float[{shape}] {name} = {{{', '.join(f'{v:.9g}' for v in value.ravel())}}}"
    weights = dict(WEIGHTS, k=CLASS_WEIGHTS.astype(np.float32)) if "labels, k)" in graph and "k =" not in graph else WEIGHTS
    inits = ", ".join(tensor(*item) for item in weights.items())
    results = ", ".join(["float loss"] + [f"{type} {name}" for name, (type, _) in outputs.items()])
    return (f'<ir_version: 10, opset_import: ["" : 20]>\n'
            f"main (float[N,4] x, int64[N] labels) => ({results})\n<{inits}>\n{{ {FORWARD}{graph} }}\n")


def of_microbatches(loss, microbatch):
    """The mean over microbatches that are computed apart."""
    def mean(w):
        whole, losses = dict(DATA), []
        for start in range(0, BATCH, microbatch):
            DATA.update({key: value[start:start + microbatch] for key, value in whole.items()})
            losses.append(loss(w))
        DATA.update(whole)
        return np.mean(losses)
    return mean


def check(args, work, name, microbatch):
    graph, loss, flags, outputs = (MODELS | WHOLE)[name]
    if name in WHOLE and microbatch < BATCH:
        loss, flags, outputs = of_microbatches(loss, microbatch), flags + ["--allow-batch-mixing"], {}
    path = {key: os.path.join(work, key) for key in ("m.onnxtext", "data.npz", "exe", "log", "grads", "outputs")}
    with open(path["m.onnxtext"], "w") as f:
        f.write(text(graph, outputs))
    np.savez(path["data.npz"], **DATA)
    commands = [[args.harmonyc, "compile", path["m.onnxtext"], "-o", path["exe"], "--batch", str(BATCH),
                 "--microbatch", str(microbatch), *flags],
                [path["exe"], "--data", path["data.npz"], "--steps", "1", "--no-shuffle", "--log", path["log"],
                 "--dump-grads", path["grads"]]]
    if outputs:
        commands.append([path["exe"], "--val", path["data.npz"], "--eval-only", "--outputs", path["outputs"]])
    for command in commands:
        p = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if p.returncode:
            return [f"exit {p.returncode}: {' '.join(command)}\n{p.stderr}"]
    bad = []

    def compare(what, got, expected):
        if np.shape(got) != np.shape(expected) or not np.allclose(got, expected, rtol=2e-5, atol=2e-5):
            bad.append(f"{what}: {got}, expected {expected}")

    weights = {key: value.astype(np.float64) for key, value in WEIGHTS.items()}
    compare("loss", read_losses(path["log"])[0], loss(weights))
    gradients = read_safetensors(path["grads"])
    if set(gradients) != set(weights):
        bad.append(f"gradients of {sorted(gradients)}, expected {sorted(weights)}")
    for key, expected in differences(loss, weights).items():
        if key in gradients:
            compare(f"gradient of {key}", gradients[key], expected)
    if outputs:
        got = read_safetensors(path["outputs"])
        for key, (_, value) in outputs.items():
            compare(f"output {key}", got.get(key), value(weights))
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harmonyc", required=True)
    args = parser.parse_args()

    def run(name, microbatch):
        with tempfile.TemporaryDirectory(prefix="graphs-") as work:
            return check(args, work, name, microbatch)

    return report((f"{name}, microbatch {u}", lambda name=name, u=u: run(name, u))
                  for name in MODELS | WHOLE for u in ((4, 2, 1) if name in MODELS else (4, 2)))


if __name__ == "__main__":
    sys.exit(main())
