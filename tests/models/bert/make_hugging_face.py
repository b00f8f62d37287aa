#!/usr/bin/env python3
"""Writes a small random BertForPreTraining as transformers would save it, with tokens and the logits that its formulas give.

Python's standard library alone, in double precision, from modeling_bert.py's formulas: nothing of thinwire, nor of transformers, is used. Beside config.json and
model.safetensors stands expected.json: tokens, types, lengths, and for each sequence its logits over the vocabulary and over the two orders.

    make_hugging_face.py FOLDER [--legacy]      --legacy: norms are named gamma and beta, as in the checkpoints of 2018
"""
import json
import math
import os
import random
import struct
import sys

HIDDEN, LAYERS, HEADS, VOCAB, POSITIONS, TYPES, EPSILON = 12, 2, 2, 23, 10, 2, 1e-12
LENGTHS = [7, 4]


def rounded(value):
    """As f32, which the file holds."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def shapes():
    all_shapes = {
        "bert.embeddings.word_embeddings.weight": [VOCAB, HIDDEN],
        "bert.embeddings.position_embeddings.weight": [POSITIONS, HIDDEN],
        "bert.embeddings.token_type_embeddings.weight": [TYPES, HIDDEN],
    }

    def linear(name, out, inner):
        all_shapes[name + ".weight"], all_shapes[name + ".bias"] = [out, inner], [out]

    def norm(name):
        all_shapes[name + ".weight"], all_shapes[name + ".bias"] = [HIDDEN], [HIDDEN]

    norm("bert.embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"bert.encoder.layer.{layer}."
        for which in ("query", "key", "value"):
            linear(at + "attention.self." + which, HIDDEN, HIDDEN)
        linear(at + "attention.output.dense", HIDDEN, HIDDEN)
        norm(at + "attention.output.LayerNorm")
        linear(at + "intermediate.dense", 4 * HIDDEN, HIDDEN)
        linear(at + "output.dense", HIDDEN, 4 * HIDDEN)
        norm(at + "output.LayerNorm")
    linear("bert.pooler.dense", HIDDEN, HIDDEN)
    linear("cls.predictions.transform.dense", HIDDEN, HIDDEN)
    norm("cls.predictions.transform.LayerNorm")
    all_shapes["cls.predictions.bias"] = [VOCAB]
    linear("cls.seq_relationship", 2, HIDDEN)
    return all_shapes


class Bert:
    """Forward pass of one sequence, without padding."""

    def __init__(self, weights):
        self.w = weights

    def linear(self, name, x):
        matrix, bias = self.w[name + ".weight"], self.w[name + ".bias"]
        return [b + sum(m * v for m, v in zip(matrix[o * len(x):(o + 1) * len(x)], x)) for o, b in enumerate(bias)]

    def norm(self, name, x):
        mean = sum(x) / len(x)
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + EPSILON)
        return [g * (v - mean) * scale + b for v, g, b in zip(x, self.w[name + ".weight"], self.w[name + ".bias"])]

    def row(self, table, index):
        return self.w[table][index * HIDDEN:(index + 1) * HIDDEN]

    @staticmethod
    def add(*vectors):
        return [sum(values) for values in zip(*vectors)]

    @staticmethod
    def gelu(x):
        return [v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in x]

    def attention(self, at, x):
        size = HIDDEN // HEADS
        query, key, value = ([self.linear(at + "self." + which, v) for v in x] for which in ("query", "key", "value"))
        out = []
        for t in range(len(x)):
            context = []
            for first in range(0, HIDDEN, size):
                head = slice(first, first + size)
                scores = [math.exp(sum(a * b for a, b in zip(query[t][head], k[head])) / math.sqrt(size)) for k in key]
                context += [sum(s * v[i] for s, v in zip(scores, value)) / sum(scores) for i in range(first, first + size)]
            out.append(self.norm(at + "output.LayerNorm", self.add(x[t], self.linear(at + "output.dense", context))))
        return out

    def encode(self, tokens, types):
        e = "bert.embeddings."
        x = [self.norm(e + "LayerNorm", self.add(self.row(e + "word_embeddings.weight", token), self.row(e + "position_embeddings.weight", p),
                                                 self.row(e + "token_type_embeddings.weight", kind))) for p, (token, kind) in enumerate(zip(tokens, types))]
        for layer in range(LAYERS):
            at = f"bert.encoder.layer.{layer}."
            x = self.attention(at + "attention.", x)
            x = [self.norm(at + "output.LayerNorm", self.add(v, self.linear(at + "output.dense", self.gelu(self.linear(at + "intermediate.dense", v))))) for v in x]
        return x

    def predictions(self, state):
        t = self.norm("cls.predictions.transform.LayerNorm", self.gelu(self.linear("cls.predictions.transform.dense", state)))
        return [sum(a * b for a, b in zip(t, self.row("bert.embeddings.word_embeddings.weight", token))) + self.w["cls.predictions.bias"][token] for token in range(VOCAB)]

    def order(self, first):
        return self.linear("cls.seq_relationship", [math.tanh(v) for v in self.linear("bert.pooler.dense", first)])


def main():
    folder, legacy = sys.argv[1], "--legacy" in sys.argv[2:]
    draw = random.Random(20181011)
    weights = {}
    for name, shape in shapes().items():
        centre = 1 if name.endswith("LayerNorm.weight") else 0
        weights[name] = [rounded(centre + draw.gauss(0, 0.4)) for _ in range(math.prod(shape))]
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in sorted(shapes().items()):
        stored = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta") if legacy else name
        header[stored] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(weights[name])]}
        data += struct.pack(f"<{len(weights[name])}f", *weights[name])
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"model_type": "bert", "architectures": ["BertForPreTraining"], "hidden_act": "gelu", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
                   "num_attention_heads": HEADS, "intermediate_size": 4 * HIDDEN, "vocab_size": VOCAB, "type_vocab_size": TYPES,
                   "max_position_embeddings": POSITIONS, "layer_norm_eps": EPSILON}, file)
    model, expected = Bert(weights), []
    for length in LENGTHS:
        tokens = [draw.randrange(VOCAB) for _ in range(length)]
        types = [1 if t >= length // 2 else 0 for t in range(length)]
        states = model.encode(tokens, types)
        expected.append({"tokens": tokens, "types": types, "predictions": [model.predictions(s) for s in states], "order": model.order(states[0])})
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file)


if __name__ == "__main__":
    main()
