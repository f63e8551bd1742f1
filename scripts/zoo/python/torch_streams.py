"""Two streams of PyTorch that wait for each other's events."""

import torch

COUNT = 1 << 20


def main():
    left = torch.arange(COUNT, device="cuda", dtype=torch.int64)
    right = torch.ones(COUNT, device="cuda", dtype=torch.int64)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(2)]
    for step in range(10):
        with torch.cuda.stream(streams[0]):
            left.add_(right)
        streams[1].wait_stream(streams[0])
        with torch.cuda.stream(streams[1]):
            right.add_(torch.remainder(left, 11))
        streams[0].wait_stream(streams[1])
    torch.cuda.synchronize()
    print("left", int(left.sum()), "right", int(right.sum()))


if __name__ == "__main__":
    main()
