"""Ends by os._exit(5) after some work: no handler of Python's or C's runs."""

import os
import sys

import torch


def main():
    values = torch.arange(1 << 16, device="cuda", dtype=torch.int64)
    for _ in range(10):
        values = torch.remainder(values * 3 + 1, 1009)
    print("sum", int(values.sum()))
    sys.stdout.flush()
    os._exit(5)


if __name__ == "__main__":
    main()
