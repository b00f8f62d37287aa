"""The BERT of models/bert/bert.h with a classifier in PyTorch, for the peers: post-LN blocks that see both directions, exact GELU, token types, pooler. Needs PyTorch.

Dropout as ours: behind the embedding, both projections of a block and the pooler; attention weights have none.
"""
import torch
from torch import nn
from torch.nn import functional

CLASSES, DROPOUT, EPSILON = 2, 0.1, 1e-12


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden, eps=EPSILON), nn.LayerNorm(hidden, eps=EPSILON)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, seq, hidden = x.shape
        q, k, v = (t.view(batch, seq, self.heads, hidden // self.heads).transpose(1, 2) for t in self.qkv(x).split(hidden, dim=2))
        attended = functional.scaled_dot_product_attention(q, k, v)
        projected = self.projection(attended.transpose(1, 2).reshape(batch, seq, hidden))
        x = self.norm1(x + functional.dropout(projected, DROPOUT, self.training))
        return self.norm2(x + functional.dropout(self.down(functional.gelu(self.up(x))), DROPOUT, self.training))


class Bert(nn.Module):
    def __init__(self, vocab, hidden, layers, heads, seq):
        super().__init__()
        self.token, self.position, self.token_type = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPSILON)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.pooler, self.classifier = nn.Linear(hidden, hidden), nn.Linear(hidden, CLASSES)

    def forward(self, inputs, labels):
        x = self.token(inputs) + self.position.weight[: inputs.shape[1]] + self.token_type.weight[0]
        x = functional.dropout(self.norm(x), DROPOUT, self.training)
        for block in self.blocks:
            x = block(x)
        pooled = functional.dropout(torch.tanh(self.pooler(x[:, 0])), DROPOUT, self.training)
        return functional.cross_entropy(self.classifier(pooled), labels)


def make(vocab, hidden, layers, heads, seq, device="cpu"):
    """Matrices normal of 0.02, in training."""
    model = Bert(vocab, hidden, layers, heads, seq)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    return model.to(device).train()


def batch(count, seq, vocab):
    """Random rows without padding, and their classes."""
    return torch.randint(0, vocab, (count, seq)), torch.randint(0, CLASSES, (count,))
