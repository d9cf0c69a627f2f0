"""Prints a layer that squares an integer again and again: squares.py NUMBER."""
import sys

COUNT = int(sys.argv[1])
TYPE = "tensor<?xi64, #nn.batch<0, 1>>"
print(f"func.func @layer(%x0: {TYPE}) -> {TYPE} attributes {{nn.layer}} {{")
for i in range(COUNT):
    print(f"  %x{i + 1} = arith.muli %x{i}, %x{i} : {TYPE}")
print(f"  return %x{COUNT} : {TYPE}\n}}")
