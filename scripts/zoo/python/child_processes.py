"""Children that use CUDA themselves: one forked before the parent starts CUDA, one spawned after it."""

import multiprocessing
import sys

import torch


def work(name, results):
    values = torch.arange(1 << 16, device="cuda", dtype=torch.int64)
    results.put((name, int((values * 3 + 1).sum())))


def child(method, name):
    context = multiprocessing.get_context(method)
    results = context.Queue()
    process = context.Process(target=work, args=(name, results))
    process.start()
    print(*results.get(timeout=50))
    process.join()
    print(f"{name}: exit code {process.exitcode}")
    sys.stdout.flush()


def main():
    child("fork", "forked child")
    values = torch.arange(1 << 16, device="cuda", dtype=torch.int64)
    print("parent", int((values * 5 + 2).sum()))
    sys.stdout.flush()
    child("spawn", "spawned child")


if __name__ == "__main__":
    main()
