#!/usr/bin/env python3
"""Writes transformers, convolutional and residual networks and perceptrons with random weights as ONNX, in the form
that exporters give them.

    make_models.py gpt OUT.onnx [--layers 6 --hidden 384 --heads 6 --length 128 --vocabulary 8192 --external 0
                                 --long 0]
    make_models.py bert OUT.onnx [--layers 6 --hidden 384 --heads 6 --length 128 --vocabulary 8192 --classes 2
                                  --long 0]
    make_models.py resnet OUT.onnx [--width 64 --image 224 --classes 1000]
    make_models.py vgg OUT.onnx [--stages 5 --convolutions 5 --width 32 --image 32 --hidden 256 --classes 10]
    make_models.py mlp OUT.onnx [--layers 4 --inputs 784 --hidden 2048 --classes 10]

All take a symbolic batch and end in SoftmaxCrossEntropyLoss. The transformer is GPT-2's: learned positions,
layer norms in front of attention and of the perceptron, one product for queries, keys and values, gelu in its
tanh form, the token table tied to the last product. With `--external 1` the weights lie in OUT.onnx.data; with
`--long 1` the nodes are those of PyTorch's older exporter: norms and gelu in single operations, shapes computed from
shapes, a mask cut from a table. The encoder is BERT's: layer norms behind, gelu in its exact form, a classifier on the
first token behind a layer with tanh. The residual network is ResNet-18 at `width` 64, with batch normalisation as in
training. The convolutional network is VGG's: stages of 3 x 3 convolutions
with bias and relu, each ending in 2 x 2 max pooling, channels doubling from stage to stage up to eight times the
width, then two linear layers. The same arguments give the same file. Needs NumPy alone.
"""
import argparse
import numpy as np

import onnx_file


class Graph:
    """Nodes and initializers of a model in the making; methods return the name of what they make."""

    def __init__(self, seed, external=None):
        """`external`: file for the data of weights, or none."""
        self.nodes, self.initializers, self.count = [], [], 0
        self.random = np.random.default_rng(seed)
        self.external = external

    def weight(self, name, *shape, scale=0.02):
        array = self.random.standard_normal(shape, dtype=np.float32)
        array *= np.float32(scale)
        return self.keep(name, array)

    def keep(self, name, array):
        # Exporters leave what is small in the file.
        self.initializers.append(onnx_file.tensor(array, name, self.external if array.nbytes >= 1024 else None))
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
    scores = g.op("Mul", g.op("MatMul", query, key), scale)
    scores = g.op("Add", scores, mask) if mask else scores
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
    mixed = g.op("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = g.op("Reshape", mixed, g.constant(np.array([-1, length, hidden], np.int64)))
    return linear(g, joined, f"{name}.c_proj", hidden, hidden)


class LongForm:
    """The parts of a transformer as PyTorch's older exporter writes them."""

    def __init__(self, g, hidden, heads, length, causal, tanh_gelu):
        self.g, self.hidden, self.heads, self.length = g, hidden, heads, length
        self.causal, self.tanh_gelu = causal, tanh_gelu
        if causal:
            self.table = g.keep("attn.bias", np.tril(np.ones((1, 1, length, length), np.bool_)))

    def scalar(self, value):
        return self.g.constant(np.float32(value))

    def extent(self, x, axis):
        """Of `x`, as a tensor of one element."""
        g = self.g
        extent = g.op("Gather", g.op("Shape", x), g.constant(np.int64(axis)), axis=0)
        return g.op("Unsqueeze", extent, g.constant(np.array([0], np.int64)))

    def reshape(self, x, *last):
        """To the first two extents of `x` and what follows."""
        g = self.g
        parts = [g.constant(np.array([extent], np.int64)) for extent in last]
        return g.op("Reshape", x, g.op("Concat", self.extent(x, 0), self.extent(x, 1), *parts, axis=0))

    def linear(self, x, name, inputs, outputs):
        g = self.g
        flat = g.op("Reshape", x, g.constant(np.array([-1, inputs], np.int64)))
        product = g.op("Gemm", flat, g.weight(f"{name}.weight", inputs, outputs), g.filled(f"{name}.bias", 0, outputs))
        parts = [self.extent(x, 0), self.extent(x, 1), g.constant(np.array([outputs], np.int64))]
        return g.op("Reshape", product, g.op("Concat", *parts, axis=0))

    def layer_norm(self, x, name):
        g = self.g
        centered = g.op("Sub", x, g.op("ReduceMean", x, g.constant(np.array([-1], np.int64))))
        square = g.op("ReduceMean", g.op("Pow", centered, self.scalar(2)), g.constant(np.array([-1], np.int64)))
        normal = g.op("Div", centered, g.op("Sqrt", g.op("Add", square, self.scalar(1e-5))))
        scaled = g.op("Mul", normal, g.filled(f"{name}.weight", 1, self.hidden))
        return g.op("Add", scaled, g.filled(f"{name}.bias", 0, self.hidden))

    def gelu(self, x):
        g = self.g
        if not self.tanh_gelu:
            inner = g.op("Erf", g.op("Div", x, self.scalar(2 ** 0.5)))
            return g.op("Mul", g.op("Mul", x, g.op("Add", inner, self.scalar(1))), self.scalar(0.5))
        inner = g.op("Add", x, g.op("Mul", self.scalar(0.044715), g.op("Pow", x, self.scalar(3))))
        inner = g.op("Tanh", g.op("Mul", self.scalar((2 / np.pi) ** 0.5), inner))
        return g.op("Mul", g.op("Mul", self.scalar(0.5), x), g.op("Add", self.scalar(1), inner))

    def mask(self, scores):
        g = self.g
        part = self.table
        for axis in (2, 3):
            part = g.op("Slice", part, g.constant(np.array([0], np.int64)), self.extent(scores, axis),
                        g.constant(np.array([axis], np.int64)))
        return g.op("Where", part, scores, self.scalar(np.finfo(np.float32).min))

    def attention(self, x, name):
        g, head = self.g, self.hidden // self.heads
        split = g.op("Split", self.linear(x, f"{name}.c_attn", self.hidden, 3 * self.hidden),
                     g.constant(np.array([self.hidden] * 3, np.int64)), outputs=3, axis=2)
        query, key, value = (self.reshape(part, self.heads, head) for part in split)
        query, value = (g.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (query, value))
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 2, 3, 1]))
        scores = g.op("Div", scores, self.scalar(head ** 0.5))
        scores = self.mask(scores) if self.causal else scores
        mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        return self.linear(self.reshape(mixed, self.hidden), f"{name}.c_proj", self.hidden, self.hidden)


class ShortForm:
    """The same with the operators that ONNX has for them."""

    def __init__(self, g, hidden, heads, length, causal, tanh_gelu):
        self.g, self.hidden, self.heads, self.length, self.tanh_gelu = g, hidden, heads, length, tanh_gelu
        self.mask = None
        if causal:
            self.mask = g.constant(np.triu(np.full((length, length), np.finfo(np.float32).min, np.float32), 1))

    def linear(self, x, name, inputs, outputs):
        return linear(self.g, x, name, inputs, outputs)

    def layer_norm(self, x, name):
        return layer_norm(self.g, x, name, self.hidden)

    def gelu(self, x):
        return self.g.op("Gelu", x, approximate="tanh" if self.tanh_gelu else "none")

    def attention(self, x, name):
        return attention(self.g, x, name, self.hidden, self.heads, self.length, self.mask)


def make_gpt(path, layers, hidden, heads, length, vocabulary, seed, external=0, long=0):
    """GPT-2 for next-token loss: int64 inputs input_ids and labels [batch, length]."""
    if not external:
        return write_gpt(path, Graph(seed), layers, hidden, heads, length, vocabulary, long)
    with open(f"{path}.data", "wb") as file:
        write_gpt(path, Graph(seed, file), layers, hidden, heads, length, vocabulary, long)


def write_gpt(path, g, layers, hidden, heads, length, vocabulary, long):
    form = (LongForm if long else ShortForm)(g, hidden, heads, length, causal=True, tanh_gelu=True)
    table = g.weight("wte.weight", vocabulary, hidden)
    positions = g.op("Gather", g.weight("wpe.weight", length, hidden), g.constant(np.arange(length)), axis=0)
    x = g.op("Add", g.op("Gather", table, "input_ids", axis=0), positions)
    for i in range(layers):
        name = f"h.{i}"
        x = g.op("Add", x, form.attention(form.layer_norm(x, f"{name}.ln_1"), f"{name}.attn"))
        inner = form.gelu(form.linear(form.layer_norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc", hidden, 4 * hidden))
        x = g.op("Add", x, form.linear(inner, f"{name}.mlp.c_proj", 4 * hidden, hidden))
    x = form.layer_norm(x, "ln_f")
    logits = g.op("MatMul", x, g.op("Transpose", table, perm=[1, 0]))
    logits = g.op("Reshape", logits, g.constant(np.array([-1, vocabulary], np.int64)))
    labels = g.op("Reshape", "labels", g.constant(np.array([-1], np.int64)))
    loss = g.op("SoftmaxCrossEntropyLoss", logits, labels, reduction="mean", ignore_index=-100)
    g.save(path, [(name, np.int64, ["batch", length]) for name in ("input_ids", "labels")], loss)


def make_bert(path, layers, hidden, heads, length, vocabulary, classes, seed, long=0):
    """BERT for classification of whole texts: int64 inputs input_ids [batch, length] and labels [batch]."""
    g = Graph(seed)
    form = (LongForm if long else ShortForm)(g, hidden, heads, length, causal=False, tanh_gelu=False)
    tokens = g.op("Gather", g.weight("embeddings.word.weight", vocabulary, hidden), "input_ids", axis=0)
    positions = g.op("Gather", g.weight("embeddings.position.weight", length, hidden), g.constant(np.arange(length)),
                     axis=0)
    x = form.layer_norm(g.op("Add", tokens, positions), "embeddings.norm")
    for i in range(layers):
        name = f"encoder.{i}"
        x = form.layer_norm(g.op("Add", x, form.attention(x, f"{name}.attention")), f"{name}.norm_1")
        inner = form.gelu(form.linear(x, f"{name}.c_fc", hidden, 4 * hidden))
        x = form.layer_norm(g.op("Add", x, form.linear(inner, f"{name}.c_proj", 4 * hidden, hidden)), f"{name}.norm_2")
    first = g.op("Gather", x, g.constant(np.int64(0)), axis=1)
    pooled = g.op("Tanh", g.op("Gemm", first, g.weight("pooler.weight", hidden, hidden), g.filled("pooler.bias", 0,
                                                                                                  hidden)))
    logits = g.op("Gemm", pooled, g.weight("classifier.weight", hidden, classes), g.filled("classifier.bias", 0,
                                                                                           classes))
    loss = g.op("SoftmaxCrossEntropyLoss", logits, "labels", reduction="mean")
    g.save(path, [("input_ids", np.int64, ["batch", length]), ("labels", np.int64, ["batch"])], loss)


def make_resnet(path, width, image, classes, seed):
    """ResNet-18 (He et al., 2016) in training: x [batch, 3, image, image], labels [batch]."""
    g = Graph(seed)

    def convolution(x, name, inputs, outputs, kernel, stride):
        weight = g.weight(f"{name}.weight", outputs, inputs, kernel, kernel, scale=(2 / (kernel ** 2 * outputs)) ** 0.5)
        return g.op("Conv", x, weight, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, strides=[stride] * 2)

    def normalized(x, name, channels):
        statistics = [g.filled(f"{name}.{part}", value, channels) for part, value in
                      (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1))]
        return g.op("BatchNormalization", x, *statistics, outputs=3, epsilon=1e-5, momentum=0.9, training_mode=1)[0]

    def block(x, name, inputs, outputs, stride):
        inner = g.op("Relu", normalized(convolution(x, f"{name}.conv1", inputs, outputs, 3, stride), f"{name}.bn1",
                                        outputs))
        inner = normalized(convolution(inner, f"{name}.conv2", outputs, outputs, 3, 1), f"{name}.bn2", outputs)
        if stride != 1 or inputs != outputs:
            x = normalized(convolution(x, f"{name}.downsample.0", inputs, outputs, 1, stride), f"{name}.downsample.1",
                           outputs)
        return g.op("Relu", g.op("Add", inner, x))

    x = g.op("Relu", normalized(convolution("x", "conv1", 3, width, 7, 2), "bn1", width))
    x, channels = g.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]), width
    for stage in range(4):
        for i in range(2):
            outputs = width * 2 ** stage
            x = block(x, f"layer{stage + 1}.{i}", channels, outputs, 2 if stage and not i else 1)
            channels = outputs
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    x = g.op("Gemm", x, g.weight("fc.weight", classes, channels, scale=channels ** -0.5), g.filled("fc.bias", 0,
                                                                                                   classes), transB=1)
    loss = g.op("SoftmaxCrossEntropyLoss", x, "labels", reduction="mean")
    g.save(path, [("x", np.float32, ["batch", 3, image, image]), ("labels", np.int64, ["batch"])], loss)


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
    gpt, bert, resnet, vgg, mlp = (kinds.add_parser(kind) for kind in ("gpt", "bert", "resnet", "vgg", "mlp"))
    for sub, options in ((gpt, dict(layers=6, hidden=384, heads=6, length=128, vocabulary=8192, seed=0, external=0,
                                    long=0)),
                         (bert, dict(layers=6, hidden=384, heads=6, length=128, vocabulary=8192, classes=2, seed=0,
                                     long=0)),
                         (resnet, dict(width=64, image=224, classes=1000, seed=0)),
                         (vgg, dict(stages=5, convolutions=5, width=32, image=32, hidden=256, classes=10, seed=0)),
                         (mlp, dict(layers=4, inputs=784, hidden=2048, classes=10, seed=0))):
        sub.add_argument("path")
        for name, default in options.items():
            sub.add_argument(f"--{name}", type=int, default=default)
    arguments = vars(parser.parse_args())
    makers = {"gpt": make_gpt, "bert": make_bert, "resnet": make_resnet, "vgg": make_vgg, "mlp": make_mlp}
    makers[arguments.pop("kind")](**arguments)


if __name__ == "__main__":
    main()
