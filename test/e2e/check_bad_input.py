#!/usr/bin/env python3
"""Runs a training executable and its compiler on input that they must refuse: check_bad_input.py FOLDER.

Every row is a command, its exit code and a part of its message. The files of the user, and what is in them, must be the
same afterwards."""
import argparse
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys

import numpy as np

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
main (float[N,2] x, int64[N] t) => (float loss, float[N,3] z)
<float[2,3] w = {0.1, -0.2, 0.3, 0.4, -0.5, 0.6}>
{
  z = MatMul (x, w)
  loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (z, t)
}
"""
TOKENS = """<ir_version: 10, opset_import: ["" : 20]>
main (int32[N] i, float[N,2] y) => (float loss)
<float[5,2] table = {0.1, -0.2, 0.3, 0.4, -0.5, 0.6, 0.7, 0.8, 0.9, 1.0}>
{
  e = Gather (table, i)
  d = Sub (e, y)
  s = Mul (d, d)
  loss = ReduceMean <keepdims = 0> (s)
}
"""


class Checker:
    def __init__(self, harmonyc, folder):
        self.harmonyc, self.folder, self.failed, self.count = harmonyc, pathlib.Path(folder), 0, 0

    def path(self, name):
        return str(self.folder / name)

    def state(self):
        return {str(f): f.read_bytes() for f in sorted(self.folder.rglob("*")) if f.is_file()}

    def run(self, command, code, *parts, bytes_limit=None):
        """Runs `command`, which must end with `code` and print every one of `parts`."""
        def limit():
            if bytes_limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_limit, bytes_limit))
        before = self.state()
        # SIGXFSZ would kill before the write can fail.
        p = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, restore_signals=False)
        text = p.stdout + p.stderr
        bad = [f"exit code {p.returncode}, expected {code}"] * (p.returncode != code)
        bad += [f"no '{part}'" for part in parts if part not in text]
        if code:
            bad += ["files have changed"] * (before != self.state())
        self.count += 1
        if bad:
            self.failed += 1
            print(" ".join(command) + ": " + "; ".join(bad) + "\n" + text)
        return text

    def npz(self, name, **arrays):
        np.savez(self.path(name), **arrays)
        return self.path(name)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harmonyc", required=True)
    ap.add_argument("folder")
    args = ap.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    os.makedirs(args.folder)
    c = Checker(args.harmonyc, args.folder)
    model, tokens, exe = c.path("model.onnxtext"), c.path("tokens.onnxtext"), c.path("exe")
    pathlib.Path(model).write_text(MODEL)
    pathlib.Path(tokens).write_text(TOKENS)
    compile_ = [args.harmonyc, "compile", model, "--batch", "4", "-o", exe]
    c.run(compile_, 0)
    c.run([args.harmonyc, "compile", tokens, "--batch", "4", "-o", c.path("tokens")], 0)

    x = np.arange(12, dtype=np.float32).reshape(6, 2) / 10
    t = np.array([0, 1, 2, 0, 1, 2])
    train = [exe, "--steps", "1", "--no-shuffle", "--data"]
    good = c.npz("good.npz", x=x, t=t)

    # Names, shapes, dtypes: all at once, with what is there.
    c.run([*train, c.npz("names.npz", images=x, labels=t)], 4,
          "no array for the model's inputs 'x' f32 [samples, 2], 't' i64 [samples] in ", "found: images, labels")
    np.savez(c.path("unnamed.npz"), x, t)
    c.run([*train, c.path("unnamed.npz")], 4, "name arrays by numpy.savez(FILE, NAME=array)")
    c.run([*train, c.npz("f64.npz", x=x.astype(np.float64), t=t.astype(np.float32))], 4,
          "'x' is f64 [6, 2], expected f32 [samples, 2]; it would lose values: convert it with "
          "array.astype(numpy.float32)", "'t' is f32 [6], expected i64 [samples]")
    c.run([*train, c.npz("shape.npz", x=x[:, :1], t=t)], 4, "'x' is f32 [6, 1], expected f32 [samples, 2]")
    c.run([*train, c.npz("counts.npz", x=x, t=t[:5])], 4, "'t' has 5 samples, ", "'x' has 6")
    c.run([*train, c.npz("few.npz", x=x[:3], t=t[:3])], 4,
          "the data has 3 samples, one batch needs 4: give more, or compile with a smaller --batch")
    c.run([*train, c.npz("objects.npz", x=np.array([[1.0], [1.0, 2.0]], dtype=object), t=t)], 4,
          "'x': dtype '|O' is not read; these are Python objects")
    c.run([*train, c.npz("strings.npz", x=np.array(["a", "b"]), t=t)], 4, "these are strings")

    # Files that are none.
    c.run([*train, c.path("none.npz")], 4, "none.npz: not a readable .npz file: No such file")
    archive = pathlib.Path(good).read_bytes()
    pathlib.Path(c.path("cut.npz")).write_bytes(archive[:-30])
    c.run([*train, c.path("cut.npz")], 4, "cut.npz: not a readable .npz file", "was it cut off")
    pathlib.Path(c.path("text.npz")).write_text("x,t\n1,2\n")
    c.run([*train, c.path("text.npz")], 4, "text.npz: not a readable .npz file: Not a zip archive")
    c.run([*train, c.path("model.pt")], 4, "accepted are FILE.npz, FILE.safetensors and NAME=FILE.npy",
          "safetensors.torch.save_file")
    c.run([*train, c.path("x.npy")], 4, "a .npy file has no name in it; write NAME=")

    # What can be read without loss is: byte orders, Fortran order, compression, widths.
    losses = set()
    for name, arrays in {"little": dict(x=x, t=t), "big": dict(x=x.astype(">f4"), t=t.astype(">i8")),
                         "fortran": dict(x=np.asfortranarray(x), t=t), "narrow": dict(x=x, t=t.astype(np.int16)),
                         "unsigned": dict(x=x, t=t.astype(np.uint64)), "bytes": dict(x=x, t=t.astype(np.uint8))}.items():
        np.savez_compressed(c.path(name + ".npz"), **arrays)
        c.run([*train, c.path(name + ".npz"), "--log", c.path(name + ".log")], 0)
        losses.add(json.loads(pathlib.Path(c.path(name + ".log")).read_text())["loss"])
    if len(losses) != 1:
        c.failed += 1
        print(f"losses differ by how the data is stored: {losses}")
    c.run([*train, c.npz("images.npz", x=(10 * x).astype(np.uint8), t=t)], 0,
          "converted, without scaling: 'x' from u8 to f32")
    train_tokens = [c.path("tokens"), "--steps", "1", "--no-shuffle", "--data"]
    c.run([*train_tokens, c.npz("wide.npz", i=np.arange(4), y=x[:4])], 0, "'i' from i64 to i32")
    c.run([*train_tokens, c.npz("toowide.npz", i=np.array([0, 1, 2, 1 << 40]), y=x[:4])], 4,
          "'i' sample 3 element 0 is 1099511627776, which the model's int32 does not hold")

    # Values.
    c.run([*train, c.npz("labels.npz", x=x, t=np.array([0, 1, 3, 0, 0, 0]))], 4,
          "'t' sample 2 element 0 is 3, accepted range is [0, 3) and -100")
    c.run([*train, c.npz("tokens.npz", x=x, t=np.full(6, -100)), "--save", c.path("saved")], 5,
          "the loss of step 1 is", "it is divided by 0: all labels of the batch are ignored", "nothing was saved")
    nan = x.copy()
    nan[3, 1] = np.nan
    c.run([*train, c.npz("nan.npz", x=nan, t=t), "--save", c.path("saved")], 5,
          "the loss of step 1 is nan: ", "nan.npz: 'x' sample 3 element 1 is NaN")

    # Weights of another model.
    def weights(name, **arrays):
        header, data = {}, b""
        for key, array in arrays.items():
            array = array.astype(np.float32)
            header[key] = dict(dtype="F32", shape=list(array.shape), data_offsets=[len(data), len(data) + array.nbytes])
            data += array.tobytes()
        text = json.dumps(header).encode()
        pathlib.Path(c.path(name)).write_bytes(struct.pack("<Q", len(text)) + text + data)
        return c.path(name)
    c.run([*train, good, "--init-from", weights("other", v=x, u=x)], 4,
          "these are not the weights of this model; missing: 'w' f32 [2, 3]; in the file and not in the model: 'v', 'u'")
    c.run([*train, good, "--init-from", weights("turned", w=np.zeros((3, 2)))], 4,
          "of another kind: 'w' is f32 [3, 2], expected f32 [2, 3]")
    c.run([*train, good, "--init-from", good], 4, "good.npz: ")

    # Full disks and places where nothing can be written. What was there stays.
    pathlib.Path(c.path("saved")).write_text("precious")
    c.run([*train, good, "--save", "/dev/full"], 1, "/dev/full: writing failed: No space left on device")
    c.run([*train, good, "--log", "/dev/full"], 1, "/dev/full: writing failed")
    c.run([*train, good, "--save", c.path("none/saved")], 1, "none/saved: cannot be written: No such file or directory")
    c.run([*train, good, "--save", good], 2, "--save " + good + ": is a file that the run reads")
    c.run([*train, good, "--save", c.path("saved"), "--trace", c.path("saved")], 2, "is the file of --save")
    c.run([*train, good, "--adversarial", "-3"], 2, "'-3' is not accepted")
    c.run(compile_, 1, "exe: writing failed: File too large; what was there before is unchanged", bytes_limit=100000)
    c.run([*compile_[:-1], model], 1, "-o " + model + ": is the file of MODEL, which would be overwritten")
    c.run([*compile_[:-1], args.folder], 1, "is a folder, expected a file")
    c.run([*compile_[:-1], "/dev/null"], 1, "-o /dev/null: is not a regular file")
    c.run([*compile_, "--plan-out", exe], 1, "--plan-out " + exe + ": is the file of -o as well")
    plan = [args.harmonyc, "plan", model, "--batch", "4"]
    c.run([*plan, "--plan-out", "/dev/full"], 1, "/dev/full: writing failed: No space left on device")
    c.run([*plan, "--trace", c.path("none/trace")], 1, "none/trace: cannot be written: No such file or directory")
    c.run([*compile_, "--device-memory", "100B"], 3, "does not fit: device 0 has 100 bytes, the least plan needs ",
          "the largest layer is 'w'")
    # A compilation that fails late leaves executable and weights as they were: it still trains.
    c.run([*train, good], 0)
    print(f"{c.count} commands, {c.failed} failed")
    return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
