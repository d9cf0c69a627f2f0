"""Prints a layer that adds up its arguments: sum.py NUMBER."""
import sys

COUNT = int(sys.argv[1])
arguments = ", ".join(f"%x{i}: tensor<f32>" for i in range(COUNT))
print(f"func.func @sum({arguments}) -> tensor<f32> attributes {{nn.layer}} {{")
for i in range(1, COUNT):
    print(f"  %s{i} = arith.addf %{'x0' if i == 1 else f's{i - 1}'}, %x{i} : tensor<f32>")
print(f"  return %s{COUNT - 1} : tensor<f32>\n}}")
