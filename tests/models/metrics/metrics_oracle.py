#!/usr/bin/python3
"""Metrics by numpy, from their definitions: what test_metrics.cpp compares with. A line in is `NAME p p p ... | w w w ...`, a line out its value."""
import sys

import numpy as np


def mean_ranks(values):
    return np.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])


def correlation(p, w):
    return np.corrcoef(p, w)[0, 1]


METRICS = {
    "accuracy": lambda p, w: np.mean(p == w),
    "matthews": lambda p, w: correlation(p == 1, w == 1),  # of two classes the correlation of their indicators
    "f1": lambda p, w: 2 / (((p == 1).sum() + (w == 1).sum()) / ((p == 1) & (w == 1)).sum()),  # harmonic mean of precision and recall
    "f1_micro": lambda p, w: micro(p, w),
    "pearson": correlation,
    "spearman": lambda p, w: correlation(mean_ranks(p), mean_ranks(w)),
}


def micro(p, w):
    classes = np.union1d(p, w)
    hit = sum(((p == c) & (w == c)).sum() for c in classes)
    precision, recall = hit / sum((p == c).sum() for c in classes), hit / sum((w == c).sum() for c in classes)
    return 2 * precision * recall / (precision + recall)


for line in sys.stdin:
    name, _, values = line.partition(" ")
    predicted, wanted = (np.array(part.split(), dtype=float) for part in values.split("|"))
    print(repr(float(METRICS[name](predicted, wanted))))
