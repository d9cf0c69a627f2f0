#!/usr/bin/env python3
"""Cuts a text into training and held-back samples: make_data.py TEXT OUT_DIR (needs numpy).

Characters are numbered by ASCII code minus 32, a newline is 95. A sample is 64 characters, its labels
are the 64 characters that follow each. The last tenth of the text is held back. Prints the loss of a
bigram model, counted on the training part with add-one smoothing, on the held-back part: what a
model must beat to have learnt more than pairs of letters.
"""
import os
import sys

import numpy as np

CONTEXT, VOCABULARY = 64, 96


def encode(text):
    codes = np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int64) - 32
    return np.where((codes >= 0) & (codes < VOCABULARY - 1), codes, VOCABULARY - 1)


def samples(codes):
    count = (len(codes) - 1) // CONTEXT
    return {"x": codes[:count * CONTEXT].reshape(count, CONTEXT),
            "labels": codes[1:count * CONTEXT + 1].reshape(count, CONTEXT)}


def main():
    codes = encode(open(sys.argv[1]).read())
    cut = len(codes) * 9 // 10
    train, held = codes[:cut], codes[cut:]
    os.makedirs(sys.argv[2], exist_ok=True)
    np.savez(os.path.join(sys.argv[2], "train.npz"), **samples(train))
    np.savez(os.path.join(sys.argv[2], "val.npz"), **samples(held))
    pairs = np.ones((VOCABULARY, VOCABULARY))
    np.add.at(pairs, (train[:-1], train[1:]), 1)
    log_probability = np.log(pairs / pairs.sum(axis=1, keepdims=True))
    print(f"bigram loss on the held-back text: {-log_probability[held[:-1], held[1:]].mean():.4f}")


if __name__ == "__main__":
    main()
