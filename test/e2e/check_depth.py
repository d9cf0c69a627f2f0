#!/usr/bin/env python3
"""Depth costs no code: 12 and 48 equal blocks have the same tasks and kernels; only what calls them grows.

    check_depth.py --harmonyc build/bin/harmonyc

Writes a model of equal residual blocks (layer norm, two products, gelu) as ONNX text, compiles it with both depths,
and compares the tasks, launches and products after code generation. Needs nothing but Python.
"""
import argparse, pathlib, re, subprocess, sys, tempfile

WIDTH, INNER, CLASSES = 8, 16, 4


def tensor(name, *shape):
    """Declaration of an initializer; values differ from one tensor to the next."""
    count = 1
    for extent in shape:
        count *= extent
    seed = sum(name.encode())
    values = ", ".join(f"{((i * 7 + seed) % 13 - 6) / 16}" for i in range(count))
    return f"float[{','.join(map(str, shape))}] {name} = {{{values}}}"


def model(depth):
    weights, body, x = [], [], "x"
    for i in range(depth):
        weights += [tensor(f"scale_{i}", WIDTH), tensor(f"shift_{i}", WIDTH), tensor(f"up_{i}", WIDTH, INNER),
                    tensor(f"up_bias_{i}", INNER), tensor(f"down_{i}", INNER, WIDTH)]
        body += [f"norm_{i} = LayerNormalization<axis=-1>({x}, scale_{i}, shift_{i})",
                 f"wide_{i} = MatMul(norm_{i}, up_{i})", f"biased_{i} = Add(wide_{i}, up_bias_{i})",
                 f"active_{i} = Gelu(biased_{i})", f"narrow_{i} = MatMul(active_{i}, down_{i})",
                 f"sum_{i} = Add({x}, narrow_{i})"]
        x = f"sum_{i}"
    weights.append(tensor("classifier", WIDTH, CLASSES))
    body += [f"logits = MatMul({x}, classifier)", "loss = SoftmaxCrossEntropyLoss(logits, labels)"]
    lines = ",\n  ".join(weights)
    nodes = "\n".join(f"  {line}" for line in body)
    return ('<ir_version: 9, opset_import: ["" : 20]>\n'
            f"depth (float[batch,{WIDTH}] x, int64[batch] labels) => (float loss)\n<\n  {lines}\n>\n{{\n{nodes}\n}}\n")


def compile_model(harmonyc, folder, depth):
    """Returns ({task: its launches}, number of lines outside of tasks)."""
    path = folder / f"depth{depth}.onnxtext"
    path.write_text(model(depth))
    result = subprocess.run([harmonyc, "compile", path, "--batch", "32", "--microbatch", "8", "--recompute", "none",
                             "--optimizer-on", "device", "--target", "host:avx2", "--pack", "1", "-o",
                             folder / "executable", "--stop-after", "codegen"], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"harmonyc ends with {result.returncode}: {result.stderr}")
    tasks, outside, current = {}, 0, None
    for line in result.stdout.splitlines():
        begin = re.match(r"  harmony\.task @([^ ]+) ", line)
        if begin:
            current = tasks.setdefault(begin.group(1), [])
        elif line == "  }":
            current = None
        elif current is not None:
            current.append(re.sub(r" loc\(.*", "", line.strip()))
        else:
            outside += 1
    return tasks, outside


def main():
    parser = argparse.ArgumentParser(description="compare the kernels of a shallow and a deep model")
    parser.add_argument("--harmonyc", default="harmonyc")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (shallow, few), (deep, many) = (compile_model(arguments.harmonyc, pathlib.Path(folder), depth)
                                        for depth in (12, 48))
    if shallow != deep:
        differ = sorted(name for name in shallow.keys() | deep.keys() if shallow.get(name) != deep.get(name))
        sys.exit(f"tasks that differ between 12 and 48 blocks: {', '.join(differ)}")
    launches = sum(map(len, shallow.values()))
    if launches == 0 or many <= few:
        sys.exit(f"{launches} launches; {few} lines of program for 12 blocks, {many} for 48")
    print(f"{len(shallow)} tasks of {launches} launches at both depths; {few} lines call them for 12 blocks, "
          f"{many} for 48")


if __name__ == "__main__":
    main()
