"""PyTorch, eager or by torch.compile ("compile": true), in its fastest forms: fused AdamW, fused attention, channels
last for images."""
import common

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, hidden, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.c_attn, self.c_proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x):
        shape = (*x.shape[:2], self.heads, -1)
        query, key, value = (part.view(shape).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, hidden, heads, causal, before, gelu):
        super().__init__()
        self.attn, self.before = Attention(hidden, heads, causal), before
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(approximate=gelu),
                                 nn.Linear(4 * hidden, hidden))

    def forward(self, x):
        if self.before:
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + self.mlp(x))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, length, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, hidden), nn.Embedding(length, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads, True, True, "tanh") for _ in range(layers)))
        self.ln_f = nn.LayerNorm(hidden)

    def forward(self, input_ids, labels):
        x = self.ln_f(self.blocks(self.wte(input_ids) + self.wpe.weight))
        return F.cross_entropy(F.linear(x, self.wte.weight).flatten(0, 1), labels.flatten())


class Bert(nn.Module):
    def __init__(self, layers, hidden, heads, length, vocabulary, classes):
        super().__init__()
        self.word, self.position = nn.Embedding(vocabulary, hidden), nn.Embedding(length, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads, False, False, "none") for _ in range(layers)))
        self.pooler, self.classifier = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)

    def forward(self, input_ids, labels):
        x = self.blocks(self.norm(self.word(input_ids) + self.position.weight))
        return F.cross_entropy(self.classifier(torch.tanh(self.pooler(x[:, 0]))), labels)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        inner = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(inner)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, width, image, classes):
        super().__init__()
        layers, channels = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                            nn.MaxPool2d(3, 2, 1)], width
        for stage in range(4):
            for i in range(2):
                outputs = width * 2 ** stage
                layers.append(Residual(channels, outputs, 2 if stage and not i else 1))
                channels = outputs
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))

    def forward(self, x, labels):
        return F.cross_entropy(self.layers(x), labels)


def main():
    job = common.arguments()
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    model = {"gpt": Gpt, "bert": Bert, "resnet": ResNet}[job["model"]](**job["sizes"])
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
    inputs = {name: torch.from_numpy(array) for name, array in common.batch(job).items()}
    if job["model"] == "resnet":
        model = model.to(memory_format=torch.channels_last)
        inputs["x"] = inputs["x"].to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **common.OPTIMIZER)
    run = torch.compile(model) if job["compile"] else model

    def step():
        loss = run(**inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    common.report(job, step)


main()
