#!/usr/bin/env python3
"""Writes transformers, convolutional networks and perceptrons with random weights as ONNX, in the form that exporters
give them.

    make_models.py gpt OUT.onnx [--layers 6 --hidden 384 --heads 6 --length 128 --vocabulary 8192]
    make_models.py vgg OUT.onnx [--stages 5 --convolutions 5 --width 32 --image 32 --hidden 256 --classes 10]
    make_models.py mlp OUT.onnx [--layers 4 --inputs 784 --hidden 2048 --classes 10]

All take a symbolic batch and end in SoftmaxCrossEntropyLoss. The transformer is GPT-2's: learned positions,
layer norms in front of attention and of the perceptron, one product for queries, keys and values, gelu in its
tanh form, the token table tied to the last product. The convolutional network is VGG's: stages of 3 x 3 convolutions
with bias and relu, each ending in 2 x 2 max pooling, channels doubling from stage to stage up to eight times the
width, then two linear layers. The same arguments give the same file. Needs NumPy alone.
"""
import argparse
import numpy as np

import onnx_file


class Graph:
    """Nodes and initializers of a model in the making; methods return the name of what they make."""

    def __init__(self, seed):
        self.nodes, self.initializers, self.count = [], [], 0
        self.random = np.random.default_rng(seed)

    def weight(self, name, *shape, scale=0.02):
        array = self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        return self.keep(name, array)

    def keep(self, name, array):
        self.initializers.append(onnx_file.tensor(array, name))
        return name

    def filled(self, name, value, *shape):
        return self.keep(name, np.full(shape, value, np.float32))

    def constant(self, array):
        return self.op("Constant", value=np.asarray(array))

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"{kind.lower()}_{self.count + i}" for i in range(outputs)]
        self.count += outputs
        self.nodes.append(onnx_file.node(kind, inputs, names, attributes))
        return names[0] if outputs == 1 else names

    def save(self, path, inputs, output):
        """`inputs`: name, element type and shape of each."""
        with open(path, "wb") as file:
            file.write(onnx_file.model(self.nodes, self.initializers, [onnx_file.value_info(*i) for i in inputs],
                                       [onnx_file.value_info(output, np.float32, [])], opset=20))


def linear(g, x, name, inputs, outputs):
    product = g.op("MatMul", x, g.weight(f"{name}.weight", inputs, outputs))
    return g.op("Add", product, g.filled(f"{name}.bias", 0, outputs))


def layer_norm(g, x, name, hidden):
    return g.op("LayerNormalization", x, g.filled(f"{name}.weight", 1, hidden), g.filled(f"{name}.bias", 0, hidden),
                axis=-1, epsilon=1e-5)


def attention(g, x, name, hidden, heads, length, mask):
    split = g.op("Split", linear(g, x, f"{name}.c_attn", hidden, 3 * hidden), outputs=3, axis=-1, num_outputs=3)
    heads_shape = g.constant(np.array([-1, length, heads, hidden // heads], np.int64))
    query, key, value = (g.op("Reshape", part, heads_shape) for part in split)
    query, value = (g.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (query, value))
    key = g.op("Transpose", key, perm=[0, 2, 3, 1])
    scale = g.constant(np.float32((hidden // heads) ** -0.5))
    scores = g.op("Add", g.op("Mul", g.op("MatMul", query, key), scale), mask)
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
    mixed = g.op("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = g.op("Reshape", mixed, g.constant(np.array([-1, length, hidden], np.int64)))
    return linear(g, joined, f"{name}.c_proj", hidden, hidden)


def make_gpt(path, layers, hidden, heads, length, vocabulary, seed):
    """GPT-2 for next-token loss: int64 inputs input_ids and labels [batch, length]."""
    g = Graph(seed)
    table = g.weight("wte.weight", vocabulary, hidden)
    positions = g.op("Gather", g.weight("wpe.weight", length, hidden), g.constant(np.arange(length)), axis=0)
    x = g.op("Add", g.op("Gather", table, "input_ids", axis=0), positions)
    mask = g.constant(np.triu(np.full((length, length), np.finfo(np.float32).min, np.float32), 1))
    for i in range(layers):
        name = f"h.{i}"
        x = g.op("Add", x, attention(g, layer_norm(g, x, f"{name}.ln_1", hidden), f"{name}.attn", hidden, heads,
                                     length, mask))
        inner = linear(g, layer_norm(g, x, f"{name}.ln_2", hidden), f"{name}.mlp.c_fc", hidden, 4 * hidden)
        inner = g.op("Gelu", inner, approximate="tanh")
        x = g.op("Add", x, linear(g, inner, f"{name}.mlp.c_proj", 4 * hidden, hidden))
    x = layer_norm(g, x, "ln_f", hidden)
    logits = g.op("MatMul", x, g.op("Transpose", table, perm=[1, 0]))
    logits = g.op("Reshape", logits, g.constant(np.array([-1, vocabulary], np.int64)))
    labels = g.op("Reshape", "labels", g.constant(np.array([-1], np.int64)))
    loss = g.op("SoftmaxCrossEntropyLoss", logits, labels, reduction="mean", ignore_index=-100)
    g.save(path, [(name, np.int64, ["batch", length]) for name in ("input_ids", "labels")], loss)


def make_vgg(path, stages, convolutions, width, image, hidden, classes, seed):
    """VGG: x [batch, 3, image, image], labels [batch]; the image is halved, rounded down, in every stage."""
    g = Graph(seed)
    x, channels, size = "x", 3, image
    for stage in range(stages):
        out = width * min(2 ** stage, 8)
        for i in range(convolutions):
            name = f"features.{stage}.{i}"
            weight = g.weight(f"{name}.weight", out, channels, 3, 3, scale=(2 / (9 * channels)) ** 0.5)
            x = g.op("Conv", x, weight, g.filled(f"{name}.bias", 0, out), kernel_shape=[3, 3], pads=[1, 1, 1, 1],
                     strides=[1, 1])
            x, channels = g.op("Relu", x), out
        x, size = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), size // 2
    if size == 0:
        raise SystemExit(f"--image {image} is too small for --stages {stages}: nothing is left of it")
    x = g.op("Flatten", x, axis=1)
    for name, outputs in (("classifier.0", hidden), ("classifier.1", classes)):
        inputs = channels * size * size if name == "classifier.0" else hidden
        x = g.op("Gemm", x, g.weight(f"{name}.weight", outputs, inputs, scale=(2 / inputs) ** 0.5),
                 g.filled(f"{name}.bias", 0, outputs), transB=1)
        if name == "classifier.0":
            x = g.op("Relu", x)
    loss = g.op("SoftmaxCrossEntropyLoss", x, "labels", reduction="mean")
    g.save(path, [("x", np.float32, ["batch", 3, image, image]), ("labels", np.int64, ["batch"])], loss)


def make_mlp(path, layers, inputs, hidden, classes, seed):
    """`layers` hidden layers of one width with relu, then a classifier: x [batch, inputs], labels [batch]."""
    g = Graph(seed)
    x, width = "x", inputs
    for i in range(layers):
        weight = g.weight(f"fc{i}.weight", hidden, width, scale=(2 / width) ** 0.5)
        x = g.op("Relu", g.op("Gemm", x, weight, g.filled(f"fc{i}.bias", 0, hidden), transB=1))
        width = hidden
    x = g.op("Gemm", x, g.weight("classifier.weight", classes, width, scale=width ** -0.5),
             g.filled("classifier.bias", 0, classes), transB=1)
    loss = g.op("SoftmaxCrossEntropyLoss", x, "labels", reduction="mean")
    g.save(path, [("x", np.float32, ["batch", inputs]), ("labels", np.int64, ["batch"])], loss)


def main():
    parser = argparse.ArgumentParser(description="write a model for benchmarks as ONNX")
    kinds = parser.add_subparsers(dest="kind", required=True)
    gpt, vgg, mlp = (kinds.add_parser(kind) for kind in ("gpt", "vgg", "mlp"))
    for sub, options in ((gpt, dict(layers=6, hidden=384, heads=6, length=128, vocabulary=8192, seed=0)),
                         (vgg, dict(stages=5, convolutions=5, width=32, image=32, hidden=256, classes=10, seed=0)),
                         (mlp, dict(layers=4, inputs=784, hidden=2048, classes=10, seed=0))):
        sub.add_argument("path")
        for name, default in options.items():
            sub.add_argument(f"--{name}", type=int, default=default)
    arguments = vars(parser.parse_args())
    {"gpt": make_gpt, "vgg": make_vgg, "mlp": make_mlp}[arguments.pop("kind")](**arguments)


if __name__ == "__main__":
    main()
