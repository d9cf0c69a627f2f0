"""JAX with Optax: one jitted step, its state donated; images with the channels last."""
import common

import functools

import jax, optax
from jax import lax, numpy as jnp


def linear(p, x):
    return x @ p["weight"] + p["bias"]


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["weight"] + p["bias"]


def attention(p, x, heads, causal):
    n, length, hidden = x.shape
    parts = (part.reshape(n, length, heads, hidden // heads) for part in jnp.split(linear(p["c_attn"], x), 3, -1))
    mixed = jax.nn.dot_product_attention(*parts, is_causal=causal)
    return linear(p["c_proj"], mixed.reshape(n, length, hidden))


def perceptron(p, x, tanh):
    return linear(p["c_proj"], jax.nn.gelu(linear(p["c_fc"], x), approximate=tanh))


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def gpt(p, input_ids, labels, heads, **_):
    x = p["wte"][input_ids] + p["wpe"]
    for block in p["blocks"]:
        x = x + attention(block["attn"], layer_norm(block["ln_1"], x), heads, True)
        x = x + perceptron(block["mlp"], layer_norm(block["ln_2"], x), True)
    return cross_entropy(layer_norm(p["ln_f"], x) @ p["wte"].T, labels)


def bert(p, input_ids, labels, heads, **_):
    x = layer_norm(p["norm"], p["word"][input_ids] + p["position"])
    for block in p["blocks"]:
        x = layer_norm(block["ln_1"], x + attention(block["attn"], x, heads, False))
        x = layer_norm(block["ln_2"], x + perceptron(block["mlp"], x, False))
    return cross_entropy(linear(p["classifier"], jnp.tanh(linear(p["pooler"], x[:, 0]))), labels)


def convolution(p, x, stride):
    pad = p.shape[0] // 2
    layouts = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, p, (stride, stride), [(pad, pad)] * 2, dimension_numbers=layouts)


def batch_norm(p, x, statistics, name):
    mean = x.mean((0, 1, 2))
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    statistics[name] = mean, variance
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["weight"] + p["bias"]


def resnet(p, x, labels, **_):
    """The statistics of each batch are returned beside the loss, to be averaged over steps."""
    statistics = {}
    norm = functools.partial(batch_norm, statistics=statistics)
    x = jax.nn.relu(norm(p["bn1"], convolution(p["conv1"], x, 2), name="bn1"))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)])
    for i, block in enumerate(p["blocks"]):
        stride = 2 if i and i % 2 == 0 else 1
        inner = jax.nn.relu(norm(block["bn1"], convolution(block["conv1"], x, stride), name=f"{i}.bn1"))
        inner = norm(block["bn2"], convolution(block["conv2"], inner, 1), name=f"{i}.bn2")
        if "shortcut" in block:
            x = norm(block["bn"], convolution(block["shortcut"], x, stride), name=f"{i}.bn")
        x = jax.nn.relu(inner + x)
    return cross_entropy(linear(p["fc"], x.mean((1, 2))), labels), statistics


class Parameters:
    def __init__(self):
        self.key = jax.random.PRNGKey(0)

    def normal(self, *shape, scale=0.02):
        self.key, key = jax.random.split(self.key)
        return jax.random.normal(key, shape, jnp.float32) * scale

    def linear(self, inputs, outputs):
        return {"weight": self.normal(inputs, outputs), "bias": jnp.zeros(outputs)}

    def norm(self, size):
        return {"weight": jnp.ones(size), "bias": jnp.zeros(size)}

    def block(self, hidden):
        return {"ln_1": self.norm(hidden), "ln_2": self.norm(hidden),
                "attn": {"c_attn": self.linear(hidden, 3 * hidden), "c_proj": self.linear(hidden, hidden)},
                "mlp": {"c_fc": self.linear(hidden, 4 * hidden), "c_proj": self.linear(4 * hidden, hidden)}}

    def gpt(self, layers, hidden, heads, length, vocabulary):
        return {"wte": self.normal(vocabulary, hidden), "wpe": self.normal(length, hidden), "ln_f": self.norm(hidden),
                "blocks": [self.block(hidden) for _ in range(layers)]}

    def bert(self, layers, hidden, heads, length, vocabulary, classes):
        return {"word": self.normal(vocabulary, hidden), "position": self.normal(length, hidden),
                "norm": self.norm(hidden), "blocks": [self.block(hidden) for _ in range(layers)],
                "pooler": self.linear(hidden, hidden), "classifier": self.linear(hidden, classes)}

    def kernel(self, size, inputs, outputs):
        return self.normal(size, size, inputs, outputs, scale=(2 / (size ** 2 * outputs)) ** 0.5)

    def resnet(self, width, image, classes):
        blocks, channels = [], width
        for i in range(8):
            outputs = width * 2 ** (i // 2)
            block = {"conv1": self.kernel(3, channels, outputs), "bn1": self.norm(outputs),
                     "conv2": self.kernel(3, outputs, outputs), "bn2": self.norm(outputs)}
            if channels != outputs:
                block.update(shortcut=self.kernel(1, channels, outputs), bn=self.norm(outputs))
            blocks.append(block)
            channels = outputs
        return {"conv1": self.kernel(7, 3, width), "bn1": self.norm(width), "blocks": blocks,
                "fc": self.linear(channels, classes)}


def main():
    job = common.arguments()
    parameters = getattr(Parameters(), job["model"])(**job["sizes"])
    forward = functools.partial(globals()[job["model"]], **job["sizes"])
    has_statistics = job["model"] == "resnet"
    optimizer = optax.adamw(common.OPTIMIZER["lr"], weight_decay=common.OPTIMIZER["weight_decay"])
    state = optimizer.init(parameters)
    inputs = common.batch(job)
    if has_statistics:
        inputs["x"] = inputs["x"].transpose(0, 2, 3, 1)
    inputs = {name: jnp.asarray(array) for name, array in inputs.items()}
    _, running = forward(parameters, **inputs) if has_statistics else (0, {})

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def train(parameters, state, running, inputs):
        result, gradients = jax.value_and_grad(lambda p: forward(p, **inputs), has_aux=has_statistics)(parameters)
        loss, batch = result if has_statistics else (result, {})
        running = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, running, batch)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, running, loss

    def step():
        nonlocal parameters, state, running
        parameters, state, running, loss = train(parameters, state, running, inputs)
        return loss.item()

    common.report(job, step)


main()
