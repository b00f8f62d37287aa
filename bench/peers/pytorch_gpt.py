"""Trains the GPT of models/gpt/gpt.h with PyTorch on CPU and prints tokens/s: the peer of bench/peers/run_peer.sh.

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

    import gpt_model
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("hidden", 512), ("layers", 8), ("heads", 8), ("vocab", 256), ("seq", 256), ("batch", 4), ("threads", 2), ("steps", 8), ("warmup", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = gpt_model.make(a.vocab, a.hidden, a.layers, a.heads, a.seq)
    optimizer = gpt_model.adamw(model)
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
