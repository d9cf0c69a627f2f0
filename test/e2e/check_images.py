#!/usr/bin/env python3
"""Train small convolutional graphs and compare loss and gradients with NumPy.

    check_images.py --harmonyc build/bin/harmonyc

Each graph scales its input by a weight per channel, so that gradients of images are seen, and ends in a mean of
squares. The reference says in double precision what convolution and pooling mean, one output at a time; gradients are
central differences of it.
"""
import argparse, itertools, os, subprocess, sys, tempfile
import numpy as np
from check_golden import read_losses, read_safetensors
from training import differences, report

BATCH = 4
RANDOM = np.random.default_rng(11)


def windows(x, kernel, strides, dilations, pads, out=None):
    """Yields (index, x[window], inside) over the outputs of images [N, C, n..]; padding is NaN."""
    rank = x.ndim - 2
    low, high = pads[:rank], pads[rank:]
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if out is None:
        out = [(n + l + h - s) // t + 1 for n, l, h, s, t in zip(x.shape[2:], low, high, span, strides)]
    room = [(o - 1) * t + s for o, t, s in zip(out, strides, span)]
    padded = np.full(x.shape[:2] + tuple(max(r, n + l) for r, n, l in zip(room, x.shape[2:], low)), np.nan)
    padded[(slice(None), slice(None)) + tuple(slice(l, l + n) for l, n in zip(low, x.shape[2:]))] = x
    for index in itertools.product(*map(range, out)):
        at = tuple(slice(i * t, i * t + s, d) for i, t, s, d in zip(index, strides, span, dilations))
        yield index, padded[(slice(None), slice(None)) + at], out


def pooled(x, reduce, kernel, strides, pads=None, dilations=None, out=None):
    rank = x.ndim - 2
    result = None
    for index, window, extents in windows(x, kernel, strides, dilations or [1] * rank, pads or [0] * 2 * rank, out):
        if result is None:
            result = np.zeros(x.shape[:2] + tuple(extents))
        result[(slice(None), slice(None)) + index] = reduce(window.reshape(*window.shape[:2], -1))
    return result


def conv(x, w, b=0, group=1, strides=None, dilations=None, pads=None):
    rank = x.ndim - 2
    outputs, inputs = w.shape[0] // group, w.shape[1]
    result = None
    for index, window, extents in windows(x, w.shape[2:], strides or [1] * rank, dilations or [1] * rank,
                                          pads or [0] * 2 * rank):
        if result is None:
            result = np.zeros((x.shape[0], w.shape[0]) + tuple(extents))
        window = np.nan_to_num(window)
        for g in range(group):
            result[(slice(None), slice(g * outputs, (g + 1) * outputs)) + index] = np.einsum(
                "nck,ock->no", window[:, g * inputs:(g + 1) * inputs].reshape(len(x), inputs, -1),
                w[g * outputs:(g + 1) * outputs].reshape(outputs, inputs, -1))
    return result + np.reshape(b, (-1,) + (1,) * rank)


def transposed(x, w, b=0, group=1, strides=None, pads=None, added=None):
    """ConvTranspose of weights [C, O, k, l]: every position adds its window to the output."""
    strides, pads, added = strides or [1, 1], pads or [0] * 4, added or [0, 0]
    inputs, outputs = w.shape[0] // group, w.shape[1]
    full = [(n - 1) * t + k for n, t, k in zip(x.shape[2:], strides, w.shape[2:])]
    result = np.zeros((len(x), group * outputs, full[0] + added[0], full[1] + added[1]))
    for i, j, g in itertools.product(*map(range, x.shape[2:]), range(group)):
        result[:, g * outputs:(g + 1) * outputs, i * strides[0]:i * strides[0] + w.shape[2],
               j * strides[1]:j * strides[1] + w.shape[3]] += np.einsum(
            "nc,cokl->nokl", x[:, g * inputs:(g + 1) * inputs, i, j], w[g * inputs:(g + 1) * inputs])
    rows, columns = (slice(pads[axis], result.shape[2 + axis] - pads[2 + axis]) for axis in (0, 1))
    return result[:, :, rows, columns] + np.reshape(b, (-1, 1, 1))


# name: shape of x without the batch, shapes of weights, graph from a = x * s to y, the same in NumPy
MODELS = {
    "padding, a bias and max pooling": (
        (3, 6, 5), {"w": (4, 3, 3, 3), "b": (4,)},
        """c = Conv <pads = [1, 1, 1, 1]> (a, w, b)  r = Relu(c)
           y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)""",
        lambda a, w: pooled(np.maximum(conv(a, w["w"], w["b"], pads=[1, 1, 1, 1]), 0), lambda v: v.max(-1), [2, 2],
                            [2, 2])),
    "strides, dilations and uneven padding": (
        (2, 7, 8), {"w": (3, 2, 2, 3)},
        "y = Conv <strides = [2, 3], dilations = [3, 1], pads = [1, 0, 2, 1]> (a, w)",
        lambda a, w: conv(a, w["w"], strides=[2, 3], dilations=[3, 1], pads=[1, 0, 2, 1])),
    "groups": (
        (4, 5, 5), {"w": (6, 2, 3, 3), "b": (6,)},
        "y = Conv <group = 2, pads = [1, 1, 1, 1]> (a, w, b)",
        lambda a, w: conv(a, w["w"], w["b"], group=2, pads=[1, 1, 1, 1])),
    "each channel by itself": (
        (5, 5, 4), {"w": (5, 1, 3, 3), "p": (3, 5, 1, 1)},
        "d = Conv <group = 5, pads = [1, 1, 1, 1]> (a, w)  y = Conv(d, p)",
        lambda a, w: conv(conv(a, w["w"], group=5, pads=[1, 1, 1, 1]), w["p"])),
    "each channel by itself, with strides, dilations and uneven padding": (
        (3, 8, 9), {"w": (3, 1, 3, 2), "b": (3,)},
        "y = Conv <group = 3, strides = [2, 3], dilations = [2, 1], pads = [1, 0, 2, 1]> (a, w, b)",
        lambda a, w: conv(a, w["w"], w["b"], group=3, strides=[2, 3], dilations=[2, 1], pads=[1, 0, 2, 1])),
    "two outputs of each channel": (
        (3, 5, 4), {"w": (6, 1, 2, 2)},
        "y = Conv <group = 3, strides = [2, 1]> (a, w)",
        lambda a, w: conv(a, w["w"], group=3, strides=[2, 1])),
    "points of each channel": (
        (3, 4, 4), {"w": (3, 1, 1, 1)},
        "y = Conv <group = 3> (a, w)",
        lambda a, w: conv(a, w["w"], group=3)),
    "each channel by itself, one axis": (
        (4, 9), {"w": (4, 1, 5)},
        "y = Conv <group = 4, pads = [4, 0]> (a, w)",
        lambda a, w: conv(a, w["w"], group=4, pads=[4, 0])),
    "points with a stride": (
        (3, 5, 6), {"w": (4, 3, 1, 1)},
        "y = Conv <strides = [2, 2]> (a, w)",
        lambda a, w: conv(a, w["w"], strides=[2, 2])),
    "one axis": (
        (2, 9), {"w": (3, 2, 4), "b": (3,)},
        "c = Conv <strides = [2], pads = [2, 1]> (a, w, b)  y = MaxPool <kernel_shape = [3], strides = [1]> (c)",
        lambda a, w: pooled(conv(a, w["w"], w["b"], strides=[2], pads=[2, 1]), lambda v: v.max(-1), [3], [1])),
    "three axes": (
        (2, 3, 4, 3), {"w": (2, 2, 2, 2, 2)},
        "y = Conv <pads = [0, 0, 1, 1, 0, 0]> (a, w)",
        lambda a, w: conv(a, w["w"], pads=[0, 0, 1, 1, 0, 0])),
    "overlapping maxima, windows that reach out": (
        (2, 6, 6), {"w": (2, 2, 1, 1)},
        "c = Conv(a, w)  y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 0, 0], ceil_mode = 1> (c)",
        lambda a, w: pooled(conv(a, w["w"]), lambda v: np.nanmax(v, -1), [3, 3], [2, 2], [1, 1, 0, 0], out=[3, 3])),
    "averages without padding": (
        (2, 5, 5), {"w": (2, 2, 1, 1)},
        "c = Conv(a, w)  y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (c)",
        lambda a, w: pooled(conv(a, w["w"]), lambda v: np.nanmean(v, -1), [3, 3], [2, 2], [1, 1, 1, 1])),
    "averages with padding": (
        (2, 5, 5), {"w": (2, 2, 1, 1)},
        """c = Conv(a, w)
           y = AveragePool <kernel_shape = [2, 2], strides = [1, 1], pads = [0, 1, 0, 1], count_include_pad = 1> (c)""",
        lambda a, w: pooled(conv(a, w["w"]), lambda v: np.nan_to_num(v).mean(-1), [2, 2], [1, 1], [0, 1, 0, 1])),
    "transposed": (
        (3, 3, 4), {"w": (3, 2, 3, 2), "b": (2,)},
        "y = ConvTranspose <strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 0]> (a, w, b)",
        lambda a, w: transposed(a, w["w"], w["b"], strides=[2, 3], pads=[1, 0, 0, 1], added=[1, 0])),
    "transposed in groups": (
        (4, 3, 3), {"w": (4, 3, 2, 2)},
        "y = ConvTranspose <group = 2> (a, w)",
        lambda a, w: transposed(a, w["w"], group=2)),
    # More of them than positions in a window: the windows that make the weight's gradient have channels innermost.
    "transposed to many channels": (
        (3, 2, 3), {"w": (3, 7, 2, 2)},
        "y = ConvTranspose <strides = [2, 2]> (a, w)",
        lambda a, w: transposed(a, w["w"], strides=[2, 2])),
    "a residual block and a mean of the image": (
        (3, 4, 4), {"w": (3, 3, 3, 3), "v": (3, 3, 3, 3)},
        """c = Conv <pads = [1, 1, 1, 1]> (a, w)  r = Relu(c)  d = Conv <pads = [1, 1, 1, 1]> (r, v)  e = Add(a, d)
           f = Relu(e)  y = GlobalAveragePool(f)""",
        lambda a, w: np.maximum(a + conv(np.maximum(conv(a, w["w"], pads=[1] * 4), 0), w["v"], pads=[1] * 4), 0)
        .mean((2, 3), keepdims=True)),
    "joined channels, reduced as axes": (
        (2, 4, 4), {"w": (3, 2, 3, 3)},
        """c = Conv <pads = [1, 1, 1, 1]> (a, w)  d = Concat <axis = 1> (c, a)  g = GlobalMaxPool(d)
           i = Constant <value = int64[2] {2, 3}> ()  m = ReduceMean <keepdims = 1> (d, i)  y = Add(g, m)""",
        lambda a, w: (lambda d: d.max((2, 3), keepdims=True) + d.mean((2, 3), keepdims=True))(
            np.concatenate([conv(a, w["w"], pads=[1] * 4), a], 1))),
}


def text(shape, graph, weights):
    """The model in ONNX's text form."""
    def tensor(name, value):
        extents = ",".join(map(str, value.shape))
        return f"float[{extents}] {name} = {{{', '.join(f'{v:.9g}' for v in value.ravel())}}}"
    return (f'<ir_version: 10, opset_import: ["" : 20]>\n'
            f"main (float[N,{','.join(map(str, shape))}] x) => (float loss)\n"
            f"<{', '.join(tensor(*item) for item in weights.items())}>\n"
            f"{{ a = Mul(x, s)  {graph}  q = Mul(y, y)  loss = ReduceMean <keepdims = 0> (q) }}\n")


def draw(shape, extents):
    """Random weights and inputs of a model."""
    weights = {"s": RANDOM.normal(size=(shape[0],) + (1,) * (len(shape) - 1)),
               **{key: RANDOM.normal(size=extent) for key, extent in extents.items()}}
    return ({key: value.astype(np.float32) for key, value in weights.items()},
            RANDOM.normal(size=(BATCH,) + shape).astype(np.float32))


def train(args, shape, graph, weights, x, microbatch):
    """Loss and gradients of one step, or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="images-") as work:
        path = {key: os.path.join(work, key) for key in ("m.onnxtext", "data.npz", "exe", "log", "grads")}
        with open(path["m.onnxtext"], "w") as f:
            f.write(text(shape, graph, weights))
        np.savez(path["data.npz"], x=x)
        for command in ([args.harmonyc, "compile", path["m.onnxtext"], "-o", path["exe"], "--batch", str(BATCH),
                         "--microbatch", str(microbatch)],
                        [path["exe"], "--data", path["data.npz"], "--steps", "1", "--no-shuffle", "--log", path["log"],
                         "--dump-grads", path["grads"]]):
            p = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if p.returncode:
                raise RuntimeError(f"exit {p.returncode}: {' '.join(command)}\n{p.stderr}")
        return read_losses(path["log"])[0], read_safetensors(path["grads"])


def compare(bad, what, got, expected):
    if np.shape(got) != np.shape(expected) or not np.allclose(got, expected, rtol=1e-4, atol=2e-5):
        bad.append(f"{what}: {got}, expected {expected}")


def check(args, name, microbatch):
    shape, extents, graph, forward = MODELS[name]
    weights, x = draw(shape, extents)
    got, gradients = train(args, shape, graph, weights, x, microbatch)
    bad = []

    def loss(w):
        return (forward(x.astype(np.float64) * w["s"], w) ** 2).mean()

    weights = {key: value.astype(np.float64) for key, value in weights.items()}
    compare(bad, "loss", got, loss(weights))
    if set(gradients) != set(weights):
        bad.append(f"gradients of {sorted(gradients)}, expected {sorted(weights)}")
    for key, expected in differences(loss, weights).items():
        if key in gradients:
            compare(bad, f"gradient of {key}", gradients[key], expected)
    return bad


def check_blocks(args, size, group, stride, kernel):
    """Images whose windows are made in several blocks, of samples or of rows; gradients by their formulas."""
    channels, outputs, pad = 32, 8, kernel // 2
    weights, x = draw((channels, size, size), {"w": (outputs, channels // group, kernel, kernel)})
    graph = (f"y = Conv <pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}], group = {group}> (a, w)")
    got, gradients = train(args, (channels, size, size), graph, weights, x, BATCH)
    w, s, x = (v.astype(np.float64) for v in (weights["w"], weights["s"], x))
    padded = np.pad(x * s, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    out = (size + 2 * pad - kernel) // stride + 1
    inputs, per = channels // group, outputs // group

    def parts():
        """Offsets and groups: where they are in the padded image, among outputs and in the weight."""
        for i, j, g in itertools.product(range(kernel), range(kernel), range(group)):
            rows, columns = (slice(k, k + (out - 1) * stride + 1, stride) for k in (i, j))
            yield ((slice(None), slice(g * inputs, (g + 1) * inputs), rows, columns),
                   (slice(None), slice(g * per, (g + 1) * per)), (slice(g * per, (g + 1) * per), slice(None), i, j))

    y = np.zeros((BATCH, outputs, out, out))
    for image, output, weight in parts():
        y[output] += np.einsum("nchw,oc->nohw", padded[image], w[weight], optimize=True)
    d = 2 * y / y.size
    expected = {"w": np.zeros_like(w)}
    da = np.zeros_like(padded)
    for image, output, weight in parts():
        expected["w"][weight] = np.einsum("nohw,nchw->oc", d[output], padded[image], optimize=True)
        da[image] += np.einsum("nohw,oc->nchw", d[output], w[weight], optimize=True)
    expected["s"] = (da[:, :, pad:pad + size, pad:pad + size] * x).sum((0, 2, 3)).reshape(s.shape)
    bad = []
    compare(bad, "loss", got / (y ** 2).mean(), 1.0)
    for key, value in expected.items():
        scale = np.abs(value).max()
        compare(bad, f"gradient of {key}", gradients[key] / scale, value / scale)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harmonyc", required=True)
    args = parser.parse_args()
    cases = [(f"{name}, microbatch {u}", lambda name=name, u=u: check(args, name, u))
             for name, u in itertools.product(MODELS, (4, 1))]
    # Windows of a sample: 2.4 to 4.7 MB, then 19 and 13 MB, of which 4 MiB are made at a time.
    cases += [(f"blocks: {size} x {size}, {group} groups, stride {stride}, kernel {kernel}",
               lambda size=size, group=group, stride=stride, kernel=kernel:
               check_blocks(args, size, group, stride, kernel))
              for size, group, stride, kernel in ((64, 1, 1, 3), (64, 4, 1, 3), (128, 1, 1, 3), (128, 2, 2, 5))]
    return report(cases)


if __name__ == "__main__":
    sys.exit(main())
