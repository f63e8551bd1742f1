"""PyTorch's allocator with expandable segments: tensors whose memory is mapped behind addresses reserved before."""

import torch


def main():
    total = 0
    live = []
    for number in range(1, 40):
        tensor = torch.full((number << 16,), number, device="cuda", dtype=torch.int32)
        total += int((tensor * 2 + 1).sum(dtype=torch.int64))
        if number % 3 == 0:
            live.append(tensor)
        if number % 13 == 0:
            live.clear()
            torch.cuda.empty_cache()
    print("sum:", total)
    segments = torch.cuda.memory._snapshot()["segments"]
    print("expandable:", all(segment["is_expandable"] for segment in segments))


if __name__ == "__main__":
    main()
