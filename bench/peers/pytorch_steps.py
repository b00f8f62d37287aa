"""Trains the GPT of models/gpt/gpt.h, or fine-tunes the BERT of models/bert/bert.h, with PyTorch on CPU and prints tokens/s: the peer of bench/peers/run_peer.sh.

The same models as train_gpt's (gpt_model.py, bert_model.py), f32 or under autocast in bf16 with f32 weights, AdamW with decay of matrices only, clipping of the global norm. Prints one JSON
line. Exit code 77: PyTorch is not installed here.
"""

import argparse
import json
import statistics
import sys
import time

try:
    import torch

    import bert_model
    import gpt_model
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("hidden", 512), ("layers", 8), ("heads", 8), ("vocab", 256), ("seq", 256), ("batch", 4), ("threads", 2), ("steps", 8), ("warmup", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--model", choices=("gpt", "bert"), default="gpt")
    parser.add_argument("--products", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    kind = {"gpt": gpt_model, "bert": bert_model}[a.model]
    model = kind.make(a.vocab, a.hidden, a.layers, a.heads, a.seq)
    optimizer = gpt_model.adamw(model)
    run = torch.compile(model) if a.mode == "compile" else model
    inputs, wanted = kind.batch(a.batch, a.seq, a.vocab)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.products == "bf16"):
            loss = run(inputs, wanted)
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
    print(json.dumps({"program": "pytorch", "version": torch.__version__, "mode": a.mode, "products": a.products, "threads": a.threads, "tokens_per_second": per_step / median,
                      "best_tokens_per_second": per_step / min(seconds), "step_ms": 1e3 * median, "steps": a.steps, "loss": loss}))


if __name__ == "__main__":
    main()
