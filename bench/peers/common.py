"""What the peers of bench/compare.py share: arguments, data, the report. A peer is a script that trains one model

    PEER.py JSON    {"model": "gpt", "sizes": {...}, "batch": 8, "steps": 5, "threads": 1, "path": "MODEL.onnx", ...}

with AdamW on one batch of random data, and prints JSON: seconds of the fastest step after the first, of the wall clock
from `begin` (time.time() before the process was started) to the end of the first step, and the first and last loss.
"""
import json, sys, time

import numpy as np

OPTIMIZER = dict(lr=1e-4, weight_decay=0.01)  # betas and epsilon are the defaults everywhere


def arguments():
    return json.loads(sys.argv[1])


def batch(job):
    """Inputs by name: integers within the model's range, images of normal numbers."""
    random, sizes, n = np.random.default_rng(1), job["sizes"], job["batch"]
    if job["model"] == "resnet":
        image = random.standard_normal((n, 3, sizes["image"], sizes["image"]), dtype=np.float32)
        return {"x": image, "labels": random.integers(0, sizes["classes"], n)}
    tokens = random.integers(0, sizes["vocabulary"], (n, sizes["length"]))
    if job["model"] == "bert":
        return {"input_ids": tokens, "labels": random.integers(0, sizes["classes"], n)}
    return {"input_ids": tokens, "labels": random.integers(0, sizes["vocabulary"], (n, sizes["length"]))}


def report(job, step):
    """Runs `step`, which returns the loss, as often as the job says."""
    times, losses = [], []
    for _ in range(job["steps"]):
        begin = time.monotonic()
        losses.append(float(step()))
        times.append(time.monotonic() - begin)
        if len(losses) == 1:
            first = time.time() - job["begin"]
    print(json.dumps({"step": min(times[1:], default=times[0]), "first": first, "losses": [losses[0], losses[-1]]}))
