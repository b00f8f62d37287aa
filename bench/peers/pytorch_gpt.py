"""Trains the GPT of models/gpt.h with PyTorch on CPU and prints tokens/s: the peer of bench/peers/run_peer.sh.

The same model as train_gpt's: learned positions, pre-LN blocks, tanh GELU, tied head, f32, AdamW with decay of matrices only,
clipping of the global norm. Prints one JSON line per mode. Exit code 77: PyTorch is not installed here.
"""

import argparse
import json
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, seq, hidden = x.shape
        q, k, v = (t.view(batch, seq, self.heads, hidden // self.heads).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(hidden, dim=2))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocab, hidden, layers, heads, seq):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.token.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("hidden", 512), ("layers", 8), ("heads", 8), ("vocab", 256), ("seq", 256), ("batch", 4), ("threads", 2), ("steps", 8), ("warmup", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Gpt(a.vocab, a.hidden, a.layers, a.heads, a.seq)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}], lr=3e-4, fused=True)
    run = torch.compile(model) if a.mode == "compile" else model
    tokens = torch.randint(0, a.vocab, (a.batch, a.seq + 1))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = run(tokens[:, :-1], tokens[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.item()

    loss = [step() for _ in range(a.warmup)][-1]
    seconds = []
    for _ in range(a.steps):
        begin = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - begin)
    per_step = a.batch * a.seq
    median = statistics.median(seconds)
    print(json.dumps({"program": "pytorch", "version": torch.__version__, "mode": a.mode, "threads": a.threads, "tokens_per_second": per_step / median,
                      "best_tokens_per_second": per_step / min(seconds), "step_ms": 1e3 * median, "steps": a.steps, "loss": loss}))


if __name__ == "__main__":
    main()
