#!/usr/bin/env python3
"""Exports the character-level GPT of this example: python3 export.py gpt.onnx (needs torch and onnx)."""
import sys

import onnx
import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS, BLOCKS = 96, 64, 96, 4, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (part.view(n, t, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight  # tied
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, x, labels):
        h = self.tokens(x) + self.positions(torch.arange(CONTEXT))
        for block in self.blocks:
            h = block(h)
        logits = self.head(self.ln(h))
        return F.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1))


torch.manual_seed(1)
batch = torch.export.Dim("batch", min=2)
# Two tensors: what is passed twice becomes one input.
x, labels = torch.randint(0, VOCABULARY, (2, 4, CONTEXT)).unbind()
torch.onnx.export(
    GPT().train(), (x.clone(), labels.clone()), sys.argv[1], input_names=["x", "labels"], output_names=["loss"],
    dynamic_shapes=({0: batch}, {0: batch}), dynamo=True, opset_version=20, optimize=False, external_data=False)

# The exporter notes stack traces of this file; the model does not need them.
model = onnx.load(sys.argv[1])
for node in model.graph.node:
    del node.metadata_props[:]
    node.ClearField("doc_string")
onnx.save(model, sys.argv[1])
