"""Prints a chain of residual blocks x + gelu(x @ up) @ down, normalised, with a loss: blocks.py NUMBER."""
import sys

COUNT = int(sys.argv[1])
X, H = (f"tensor<?x{n}xf32, #nn.batch<0, 1>>" for n in (16, 32))
ROW = "tensor<?xf32, #nn.batch<0, 1>>"


def product(result, lhs, rhs, types):
    return f"  %{result} = nn.dot_general %{lhs}, %{rhs} batch [] x [] contract [1] x [0] : {types}"


lines = [f"nn.variable <parameter> @{name}{i} : tensor<{shape}xf32>" for i in range(COUNT)
         for name, shape in (("up", "16x32"), ("down", "32x16"), ("scale", "16"))]
lines += ["nn.variable <parameter> @first : tensor<16x16xf32>",
          f"func.func @main(%x: {X} {{nn.name = \"x\"}}) {{",
          "  %first = nn.get @first : tensor<16x16xf32>",
          product("v0", "x", "first", f"{X}, tensor<16x16xf32> -> {X}")]
for i in range(COUNT):
    lines += [f"  %up{i} = nn.get @up{i} : tensor<16x32xf32>", f"  %down{i} = nn.get @down{i} : tensor<32x16xf32>",
              f"  %scale{i} = nn.get @scale{i} : tensor<16xf32>",
              f"  %n{i}:3 = nn.layer_norm %v{i}, %scale{i} axis 1 epsilon 1.0e-5 : {X}, tensor<16xf32> -> {X}, {ROW}, {ROW}",
              product(f"h{i}", f"n{i}", f"up{i}", f"{X}, tensor<16x32xf32> -> {H}").replace(f"%n{i},", f"%n{i}#0,"),
              f"  %g{i} = nn.gelu %h{i} : {H}",
              product(f"d{i}", f"g{i}", f"down{i}", f"{H}, tensor<32x16xf32> -> {X}"),
              f"  %v{i + 1} = arith.addf %v{i}, %d{i} : {X}"]
lines += [f"  %sum = nn.reduce sum %v{COUNT} over [0, 1] : {X} -> tensor<f32>",
          "  nn.loss %sum scale 1.0 count 1.0 : tensor<f32>", "  return", "}"]
print("\n".join(lines))
