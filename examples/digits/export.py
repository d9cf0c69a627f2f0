#!/usr/bin/env python3
"""Exports the network of this example: python3 export.py digits.onnx (needs torch and onnx).

Two things matter in an export for training: the module returns its loss (and, for evaluation,
what a metric is taken of), and optimize=False keeps every parameter one initializer.
"""
import sys

import onnx
import torch
from torch import nn
from torch.nn import functional as F


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, 10)

    def forward(self, images, labels):
        x = F.relu(self.fc1(images))
        x = F.relu(self.fc2(x))
        logits = self.fc3(x)
        return F.cross_entropy(logits, labels), logits


torch.manual_seed(1)
batch = torch.export.Dim("batch", min=2)
torch.onnx.export(
    Digits().train(), (torch.rand(4, 64), torch.randint(0, 10, (4,))), sys.argv[1],
    input_names=["images", "labels"], output_names=["loss", "logits"],
    dynamic_shapes=({0: batch}, {0: batch}), dynamo=True, opset_version=20, optimize=False, external_data=False)

# The exporter notes stack traces of this file; the model does not need them.
model = onnx.load(sys.argv[1])
for node in model.graph.node:
    del node.metadata_props[:]
    node.ClearField("doc_string")
onnx.save(model, sys.argv[1])
