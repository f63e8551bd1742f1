"""Training steps of GPT-2, from its configuration: one JSON line with the median time of a step.

    gpt2_steps.py [--layers 12] [--batch 4] [--tokens 512] [--steps 100]
"""

import argparse
import json
import statistics
import time

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.manual_seed(1)
    config = transformers.GPT2Config(n_layer=options.layers, n_positions=max(options.tokens, 32))
    model = transformers.GPT2LMHeadModel(config).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = torch.randint(0, config.vocab_size, (options.batch, options.tokens), device="cuda")
    seconds, begin = [], time.perf_counter()
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = model(words, labels=words).loss
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        now = time.perf_counter()
        seconds.append(now - begin)
        begin = now
    later = seconds[len(seconds) // 5:]
    print(json.dumps({"step_ms": round(statistics.median(later) * 1e3, 3), "all_s": round(sum(seconds), 3),
                      "loss": round(loss.item(), 3)}))


if __name__ == "__main__":
    main()
