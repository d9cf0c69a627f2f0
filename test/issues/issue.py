"""What the tests of public bug reports share: small models as text, compiled, run and compared with numbers.

Every test is a file named by tracker and number that lit runs and Python reads. `harmonyc` is found by PATH.
"""
import atexit, os, shutil, subprocess, sys, tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from check_golden import read_losses, read_safetensors
from training import differences

WORK = tempfile.mkdtemp(prefix="issue-")
atexit.register(shutil.rmtree, WORK)
TYPES = {np.dtype(np.float32): ("float", 1), np.dtype(np.int64): ("int64", 7), np.dtype(np.int32): ("int32", 6),
         np.dtype(bool): ("bool", 9)}


def path(name):
    return os.path.join(WORK, name)


def call(command, code=0):
    """Runs a command that must end with this code; its output."""
    p = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    if p.returncode != code:
        sys.exit(f"exit {p.returncode}, expected {code}: {' '.join(map(str, command))}\n{p.stdout}{p.stderr}")
    return p.stdout + p.stderr


def tensor(name, value):
    """An initializer of ONNX's text form."""
    value = np.asarray(value)
    numbers = ", ".join(str(int(v)) if value.dtype.kind in "iub" else f"{v:.9g}" for v in value.ravel())
    shape = f"[{','.join(map(str, value.shape))}]" if value.shape else ""
    return f"{TYPES[value.dtype][0]}{shape} {name} = {{{numbers}}}"


def model(inputs, outputs, graph, weights=None, opset=20, name="main"):
    """A model in ONNX's text form: `inputs` and `outputs` as in "float[N,4] x, int64[N] labels"."""
    initializers = ", ".join(tensor(*item) for item in (weights or {}).items())
    return (f'<ir_version: 10, opset_import: ["" : {opset}]>\n{name} ({inputs}) => ({outputs})\n'
            + (f"<{initializers}>\n" if initializers else "") + f"{{ {graph} }}\n")


def write(text):
    """Models in protobuf's text form begin with ir_version."""
    file = path("model.textproto" if text.startswith("ir_version") else "model.onnxtext")
    with open(file, "w") as f:
        f.write(text)
    return file


def compile(text, *flags, code=0):
    """Compiles a model; the executable's path is path("train")."""
    return call(["harmonyc", "compile", write(text), "-o", path("train"), *flags], code)


class Run:
    """Losses, first gradients and last weights of a few steps on one batch."""

    def __init__(self, data, *flags, steps=1, code=0):
        np.savez(path("data.npz"), **data)
        for name in ("log", "weights", "gradients"):
            if os.path.exists(path(name)):
                os.remove(path(name))
        self.text = call([path("train"), "--data", path("data.npz"), "--steps", steps, "--no-shuffle", "--log",
                          path("log"), "--save", path("weights"), "--dump-grads", path("gradients"), *flags], code)
        if code == 0:
            self.losses = read_losses(path("log"))
            self.weights = read_safetensors(path("weights"))
            self.gradients = read_safetensors(path("gradients"))


def train(text, data, *flags, batch=None, steps=1, run=()):
    batch = batch or len(next(iter(data.values())))
    compile(text, "--batch", batch, *flags)
    return Run(data, *run, steps=steps)


def evaluate(text, data, *flags, batch=None):
    """The outputs of a model without a loss."""
    batch = batch or len(next(iter(data.values())))
    compile(text, "--forward", "--batch", batch, *flags)
    np.savez(path("data.npz"), **data)
    call([path("train"), "--val", path("data.npz"), "--eval-only", "--outputs", path("outputs")])
    return read_safetensors(path("outputs"))


def refused(text, *fragments, flags=("--batch", "4"), code=1):
    """A model that is refused with a message that has these parts."""
    message = compile(text, *flags, code=code)
    for fragment in fragments:
        if fragment not in message:
            sys.exit(f"'{fragment}' is not in the message:\n{message}")


def close(what, got, expected, tolerance=2e-5):
    expected = np.asarray(expected)
    if got is None or np.shape(got) != expected.shape or not np.allclose(got, expected, tolerance, tolerance):
        sys.exit(f"{what}:\n{got}\nexpected:\n{expected}")


def check_training(text, data, loss, weights, *flags, batch=None):
    """The loss, and every gradient against central differences."""
    result = train(text, data, *flags, batch=batch)
    close("loss", result.losses[0], loss({k: np.asarray(v, np.float64) for k, v in weights.items()}))
    expected = differences(loss, weights)
    if set(result.gradients) != set(expected):
        sys.exit(f"gradients of {sorted(result.gradients)}, expected {sorted(expected)}")
    for name, value in expected.items():
        close(f"gradient of {name}", result.gradients[name], value, 1e-4)
    return result


# Training graphs, in protobuf's text form: ONNX text has no syntax for training_info.

TRAINING = "ai.onnx.preview.training"


def node(op, inputs, outputs, domain="", **attributes):
    text = f'node {{ op_type: "{op}" domain: "{domain}" '
    text += " ".join([f'input: "{name}"' for name in inputs.split()] + [f'output: "{name}"' for name in outputs.split()])
    for name, value in attributes.items():
        if isinstance(value, list):
            value = " ".join(f'strings: "{v}"' for v in value) + " type: STRINGS"
        elif isinstance(value, str):
            value = f's: "{value}" type: STRING'
        else:
            value = f"i: {value} type: INT" if isinstance(value, int) else f"f: {value!r} type: FLOAT"
        text += f' attribute {{ name: "{name}" {value} }}'
    return text + " }\n"


def initializer(name, value):
    value = np.asarray(value)
    field = "float_data" if value.dtype.kind == "f" else "int64_data"
    return (f'initializer {{ name: "{name}" data_type: {TYPES[value.dtype][1]} '
            + " ".join([f"dims: {n}" for n in value.shape] + [f"{field}: {v}" for v in value.ravel()]) + " }\n")


def value(kind, name, *shape, type=1):
    dims = " ".join(f'dim {{ dim_param: "{n}" }}' if isinstance(n, str) else f"dim {{ dim_value: {n} }}" for n in shape)
    return f'{kind} {{ name: "{name}" type {{ tensor_type {{ elem_type: {type} shape {{ {dims} }} }} }} }}\n'


def training_model(graph, algorithm, update, opset=17):
    """A model with training_info; `update`: initializer to the output that it becomes."""
    bindings = "".join(f'update_binding {{ key: "{k}" value: "{v}" }}\n' for k, v in update.items())
    return (f'ir_version: 8\nopset_import {{ domain: "" version: {opset} }}\n'
            f'opset_import {{ domain: "{TRAINING}" version: 1 }}\n'
            f'graph {{ name: "main"\n{graph}}}\n'
            f'training_info {{ algorithm {{ name: "algorithm"\n{algorithm}}}\n{bindings}}}\n')
