"""Products of one step of generation: few rows, whose weights are read once from device memory.

    python3 testdata/programs/decode_step.py [--rows 4]
"""

import argparse

import torch

WIDTH, HIDDEN = 2048, 8192


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4)
    rows = parser.parse_args().rows
    torch.manual_seed(0)
    options = {"bias": False, "device": "cuda", "dtype": torch.bfloat16}
    up, down = torch.nn.Linear(WIDTH, HIDDEN, **options), torch.nn.Linear(HIDDEN, WIDTH, **options)
    hidden = torch.randn(rows, WIDTH, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        hidden = down(torch.nn.functional.silu(up(hidden)))
    print(tuple(hidden.shape))


if __name__ == "__main__":
    main()
