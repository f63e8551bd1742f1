"""A program whose child, forked after PyTorch was imported and used, runs ops of its own."""

import multiprocessing

import torch


def child():
    tensor = torch.ones(4)
    torch.sinh(tensor)


if __name__ == "__main__":
    torch.cosh(torch.ones(4))
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    torch.cosh(torch.ones(4))
    print(process.exitcode)
