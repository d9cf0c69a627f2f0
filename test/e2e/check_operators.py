#!/usr/bin/env python3
"""Train on operators of images, one after the other, and compare loss and gradients with NumPy.

    check_operators.py --harmonyc build/bin/harmonyc

Each graph computes y of a = x * s, with a weight per channel, so that gradients are seen; the loss is the mean of the
cubes of y. The reference says in double precision what the operator means; gradients are central differences of it. One
model has several operators, whose losses add up; each of them has an s of its own.
"""
import argparse, itertools, os, re, subprocess, sys, tempfile
import numpy as np
from check_golden import read_losses, read_safetensors
from training import differences, report

BATCH, SHAPE = 2, (4, 4, 6)
RANDOM = np.random.default_rng(23)


def kernel(d, mode, a=-0.75):
    """The weight of an element at distance d: linear, or cubic convolution."""
    d = np.abs(d)
    if mode == "linear":
        return np.maximum(1 - d, 0)
    near = (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1
    far = a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def interpolation(n, count, mode, locate, antialias=False, exclude=False):
    """The matrix [count, n] of one axis; `locate` gives the position of each element."""
    matrix = np.zeros((count, n))
    stretch = min(count / n, 1) if antialias else 1
    for i in range(count):
        at = np.arange(-3 * n, 4 * n)
        weights = kernel((at - locate(i, n, count)) * stretch, mode)
        if exclude:
            weights = np.where((at >= 0) & (at < n), weights, 0)
        np.add.at(matrix[i], np.clip(at, 0, n - 1), weights / weights.sum())
    return matrix


def half(i, n, count):
    return (i + 0.5) * n / count - 0.5


def corners(i, n, count):
    return i * (n - 1) / (count - 1) if count > 1 else 0


def resized(a, rows, columns, mode, locate, **options):
    h = interpolation(a.shape[2], rows, mode, locate, **options)
    w = interpolation(a.shape[3], columns, mode, locate, **options)
    return np.einsum("nchw,ih,jw->ncij", a, h, w)


def sizes(rows, columns):
    return f"k = Constant <value = int64[2] {{{rows}, {columns}}}> ()  "


def padded(a, mode, low, high):
    return np.pad(a, ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1])), mode)


def pads(*values):
    return f"k = Constant <value = int64[8] {{0, 0, {values[0]}, {values[1]}, 0, 0, {values[2]}, {values[3]}}}> ()  "


def normalized(rows, epsilon=1e-5):
    return (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + epsilon)


def pooled(a, p, k, stride):
    rows, columns = (range(0, n - k + 1, stride) for n in a.shape[2:])
    return np.stack([np.stack([(np.abs(a[:, :, i:i + k, j:j + k]) ** p).sum((2, 3)) ** (1 / p) for j in columns], -1)
                     for i in rows], 2)


def summed(a, size):
    """Sums of squares over `size` channels around each."""
    before = (size - 1) // 2
    c = a.shape[1]
    return np.stack([(a[:, max(i - before, 0):min(i - before + size, c)] ** 2).sum(1) for i in range(c)], 1)


def blocks(a, k, mode):
    n, c, h, w = a.shape
    if mode == "CRD":
        return a.reshape(n, c // k // k, k, k, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, -1, h * k, w * k)
    return a.reshape(n, k, k, c // k // k, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, -1, h * k, w * k)


def depth(a, k):
    n, c, h, w = a.shape
    return a.reshape(n, c, h // k, k, w // k, k).transpose(0, 3, 5, 1, 2, 4).reshape(n, -1, h // k, w // k)


def scattered(b, m):
    """m added to the least element of b along axis 1."""
    sums = b.copy()
    np.put_along_axis(sums, b.argmin(1)[:, None], b.min(1, keepdims=True) + m, 1)
    return sums


SMALL = "j = Constant <value = float {0.3}> ()  b = Mul(a, j)  "  # within (-1, 1), mostly
UNARY = {"Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Atan": np.arctan, "Sinh": np.sinh, "Cosh": np.cosh,
         "Asinh": np.arcsinh, "Tanh": np.tanh}
GROUPS = {
    "normalisations": [
        ("m = Constant <value = float[4] {1.0, 2.0, -1.0, 0.5}> ()  y = InstanceNormalization(a, m, m)",
         lambda a: (lambda m: normalized(a.reshape(BATCH, 4, -1)).reshape(a.shape) * m + m)(
             np.reshape([1, 2, -1, 0.5], (4, 1, 1)))),
        ("m = Constant <value = float[4] {1.0, 2.0, -1.0, 0.5}> ()  y = GroupNormalization <num_groups = 2> (a, m, m)",
         lambda a: (lambda m: normalized(a.reshape(BATCH, 2, -1)).reshape(a.shape) * m + m)(
             np.reshape([1, 2, -1, 0.5], (4, 1, 1)))),
        ("y = MeanVarianceNormalization <axes = [1, 3]> (a)",
         lambda a: (a - a.mean((1, 3), keepdims=True)) / a.std((1, 3), keepdims=True)),
        ("y = LpNormalization <axis = 1, p = 1> (a)", lambda a: a / np.abs(a).sum(1, keepdims=True)),
        ("y = LpNormalization (a)", lambda a: a / np.sqrt((a ** 2).sum(3, keepdims=True))),
        ("y = LRN <size = 3, alpha = 0.5, beta = 0.6, bias = 1.5> (a)",
         lambda a: a / (1.5 + 0.5 / 3 * summed(a, 3)) ** 0.6),
        ("y = LRN <size = 2> (a)", lambda a: a / (1 + 5e-5 * summed(a, 2)) ** 0.75),
    ],
    "cumulative sums": [
        ("k = Constant <value = int64 {2}> ()  y = CumSum(a, k)", lambda a: a.cumsum(2)),
        ("k = Constant <value = int64 {-1}> ()  y = CumSum <reverse = 1> (a, k)", lambda a: a[..., ::-1].cumsum(3)[..., ::-1]),
        ("k = Constant <value = int64 {1}> ()  y = CumSum <exclusive = 1> (a, k)", lambda a: a.cumsum(1) - a),
        ("k = Constant <value = int64 {3}> ()  y = CumSum <exclusive = 1, reverse = 1> (a, k)",
         lambda a: a[..., ::-1].cumsum(3)[..., ::-1] - a),
        # Of integers: positions of what is no padding.
        ("""z = Constant <value = float {0.0}> ()  k = Constant <value = int64 {3}> ()  g = Greater(a, z)  i = Cast <to = 7> (g)
            c = CumSum(i, k)  f = Cast <to = 1> (c)  y = Mul(a, f)""", lambda a: a * (a > 0).cumsum(3)),
    ],
    "pools by powers": [
        ("y = LpPool <kernel_shape = [2, 2], strides = [2, 1], p = 1> (a)",
         lambda a: np.stack([pooled(a, 1, 2, 1)[:, :, i] for i in (0, 2)], 2)),
        ("y = LpPool <kernel_shape = [3, 3], strides = [1, 1]> (a)", lambda a: pooled(a, 2, 3, 1)),
        ("y = LpPool <kernel_shape = [2, 2], strides = [2, 2], p = 3> (a)", lambda a: pooled(a, 3, 2, 2)),
        ("y = GlobalLpPool <p = 2> (a)", lambda a: np.sqrt((a ** 2).sum((2, 3), keepdims=True))),
    ],
    "resizing": [
        (sizes(8, 9) + 'y = Resize <axes = [2, 3], mode = "linear", coordinate_transformation_mode = "half_pixel"> (a, "", "", k)',
         lambda a: resized(a, 8, 9, "linear", half)),
        (sizes(3, 4) + 'y = Resize <axes = [2, 3], mode = "cubic", coordinate_transformation_mode = "align_corners"> (a, "", "", k)',
         lambda a: resized(a, 3, 4, "cubic", corners)),
        (sizes(7, 12) + 'y = Resize <axes = [2, 3], mode = "cubic", exclude_outside = 1> (a, "", "", k)',
         lambda a: resized(a, 7, 12, "cubic", half, exclude=True)),
        (sizes(2, 3) + 'y = Resize <axes = [2, 3], mode = "linear", antialias = 1> (a, "", "", k)',
         lambda a: resized(a, 2, 3, "linear", half, antialias=True)),
        (sizes(2, 5) + 'y = Resize <axes = [2, 3], mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (a, "", "", k)',
         lambda a: a[:, :, [0, 2]][..., [0, 1, 2, 3, 4]]),
        ('k = Constant <value = float[4] {1.0, 1.0, 2.0, 3.0}> ()  y = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (a, "", k)',
         lambda a: a.repeat(2, 2).repeat(3, 3)),
        ('y = Resize <axes = [2], keep_aspect_ratio_policy = "stretch", mode = "linear"> (a, "", "", k6)',
         lambda a: resized(a, 6, 6, "linear", half)),
    ],
    "padding and blocks": [
        (pads(1, 2, 3, 1) + 'y = Pad <mode = "reflect"> (a, k)', lambda a: padded(a, "reflect", (1, 2), (3, 1))),
        (pads(2, 0, 1, 3) + 'y = Pad <mode = "edge"> (a, k)', lambda a: padded(a, "edge", (2, 0), (1, 3))),
        (pads(1, 7, 2, 1) + 'y = Pad <mode = "wrap"> (a, k)', lambda a: a.take(range(-1, 6), 2, mode="wrap").take(range(-7, 7), 3, mode="wrap")),
        (pads(-1, 2, 1, 0) + 'f = Constant <value = float {0.5}> ()  y = Pad(a, k, f)',
         lambda a: np.pad(a[:, :, 1:], ((0, 0), (0, 0), (0, 1), (2, 0)), constant_values=0.5)),
        (pads(-1, 2, 1, -2) + 'y = Pad <mode = "edge"> (a, k)',
         lambda a: padded(a, "edge", (0, 2), (1, 0))[:, :, 1:, :-2]),
        ("c = ReduceProd <keepdims = 1> (a, k1)  y = Add(c, c)", lambda a: 2 * a.prod(3, keepdims=True)),
        ("q = Mul(a, a)  y = ReduceLogSum <keepdims = 0> (q, k1)", lambda a: np.log((a * a).sum(3))),
        ("y = DepthToSpace <blocksize = 2> (a)", lambda a: blocks(a, 2, "DCR")),
        ('y = DepthToSpace <blocksize = 2, mode = "CRD"> (a)', lambda a: blocks(a, 2, "CRD")),
        ("y = SpaceToDepth <blocksize = 2> (a)", lambda a: depth(a, 2)),
    ],
    "elements by index": [
        ("k = Constant <value = float {0.0}> ()  b = Greater(a, k)  c = Cast <to = 7> (b)  y = GatherElements <axis = 1> (a, c)",
         lambda a: np.take_along_axis(a, (a > 0).astype(int), 1)),
        ("c = ArgMax <axis = 2, keepdims = 1> (a)  y = GatherElements <axis = -2> (a, c)",
         lambda a: a.max(2, keepdims=True)),
        # a[:, [0, 3, 1], [5, -1, 2]], as exporters have it: the axes first, then back.
        ("""b = Transpose <perm = [1, 2, 0, 3]> (a)  k = Constant <value = int64[3,2] {0, 3, 3, -1, 1, 2}> ()
            c = GatherND(b, k)  y = Transpose <perm = [1, 0, 2]> (c)""", lambda a: a[:, [0, 3, 1], [3, -1, 2]]),
        # Fewer indices than elements along another axis.
        ("""k = Constant <value = float {0.0}> ()  b = Greater(a, k)  c = Cast <to = 7> (b)
            f = Constant <value = int64[2] {1, 1}> ()  j = Constant <value = int64[2] {3, 4}> ()
            q = Constant <value = int64[2] {1, 3}> ()  m = Slice(c, f, j, q)  y = GatherElements <axis = 2> (a, m)""",
         lambda a: np.take_along_axis(a[:, :2, :, :3], (a > 0).astype(int)[:, 1:3, :, 1:4], 2)),
        ("""f = ReduceMean <keepdims = 1> (a, k1)  b = ReduceMax <keepdims = 1> (a, k1)
            q = ArgMin <axis = 1, keepdims = 1> (b)  c = Constant <value = int64[1] {1}> ()  m = ReduceMean <keepdims = 1> (f, c)
            y = ScatterElements <axis = 1, reduction = "add"> (b, q, m)""",
         lambda a: scattered(a.max(3, keepdims=True), a.mean((1, 3), keepdims=True))),
    ],
    "functions of one variable": [
        *((f"{SMALL}y = {op}(b)", lambda a, f=f: f(np.float32(0.3) * a)) for op, f in UNARY.items()),
        (f"{SMALL}c = Tanh(b)  y = Asin(c)", lambda a: np.arcsin(np.tanh(np.float32(0.3) * a))),
        (f"{SMALL}c = Tanh(b)  y = Acos(c)", lambda a: np.arccos(np.tanh(np.float32(0.3) * a))),
        (f"{SMALL}c = Sin(b)  y = Atanh(c)", lambda a: np.arctanh(np.sin(np.float32(0.3) * a))),
        ("j = Constant <value = float {1.5}> ()  q = Mul(a, a)  c = Add(q, j)  y = Acosh(c)",
         lambda a: np.arccosh(a * a + 1.5)),
        ("y = Shrink <lambd = 0.7, bias = 0.2> (a)",
         lambda a: np.where(a > 0.7, a - 0.2, np.where(a < -0.7, a + 0.2, 0))),
    ],
}


def text(cases, weights):
    """The model in ONNX's text form: values of case i have the suffix _i."""
    def tensor(name, value):
        return f"float[{','.join(map(str, value.shape))}] {name} = {{{', '.join(f'{v:.9g}' for v in value.ravel())}}}"

    body = 'k1 = Constant <value = int64[1] {3}> ()  k6 = Constant <value = int64[1] {6}> ()  '
    for i, (graph, _) in enumerate(cases):
        graph = re.sub(r"\b([abcfjklmqy])\b(?=\s*[,)=])", rf"\g<1>_{i}", graph)
        body += (f"a_{i} = Mul(x, s_{i})  {graph}  q2_{i} = Mul(y_{i}, y_{i})  q3_{i} = Mul(q2_{i}, y_{i})  "
                 f"l_{i} = ReduceMean <keepdims = 0> (q3_{i})\n")
    total = "l_0"
    for i in range(1, len(cases)):
        body += f"t_{i} = Add({total}, l_{i})  "
        total = f"t_{i}"
    return (f'<ir_version: 10, opset_import: ["" : 21]>\n'
            f"main (float[N,{','.join(map(str, SHAPE))}] x) => (float loss)\n"
            f"<{', '.join(tensor(*item) for item in weights.items())}>\n{{ {body} loss = Identity({total}) }}\n")


def check(args, name, microbatch):
    cases = GROUPS[name]
    weights = {f"s_{i}": RANDOM.normal(size=(SHAPE[0], 1, 1)).astype(np.float32) for i in range(len(cases))}
    x = RANDOM.normal(size=(BATCH,) + SHAPE).astype(np.float32)
    with tempfile.TemporaryDirectory(prefix="operators-") as work:
        path = {key: os.path.join(work, key) for key in ("m.onnxtext", "data.npz", "exe", "log", "grads")}
        with open(path["m.onnxtext"], "w") as f:
            f.write(text(cases, weights))
        np.savez(path["data.npz"], x=x)
        for command in ([args.harmonyc, "compile", path["m.onnxtext"], "-o", path["exe"], "--batch", str(BATCH),
                         "--microbatch", str(microbatch)],
                        [path["exe"], "--data", path["data.npz"], "--steps", "1", "--no-shuffle", "--log", path["log"],
                         "--dump-grads", path["grads"]]):
            p = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if p.returncode:
                return [f"exit {p.returncode}: {' '.join(command)}\n{p.stderr}"]
        got, gradients = read_losses(path["log"])[0], read_safetensors(path["grads"])
    bad, total = [], 0.0
    for i, (graph, forward) in enumerate(cases):
        def loss(w):
            return (forward(x.astype(np.float64) * w["s"]) ** 3).mean()
        s = weights[f"s_{i}"].astype(np.float64)
        total += loss({"s": s})
        numeric = differences(loss, {"s": s})["s"]
        mine = gradients.get(f"s_{i}")
        if mine is None or not np.allclose(mine, numeric, rtol=2e-4, atol=2e-5 * max(1, np.abs(numeric).max())):
            bad.append(f"{graph}: gradient {None if mine is None else mine.ravel()}, expected {numeric.ravel()}")
    if not np.isclose(got, total, rtol=2e-5, atol=2e-5):
        bad.append(f"loss {got}, expected {total}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harmonyc", required=True)
    parser.add_argument("--only", default="", help="groups whose name has this part")
    args = parser.parse_args()
    return report((f"{name}, microbatch {u}", lambda name=name, u=u: check(args, name, u))
                  for name, u in itertools.product(GROUPS, (BATCH, 1)) if args.only in name)


if __name__ == "__main__":
    sys.exit(main())
