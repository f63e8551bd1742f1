"""Ops whose results have known counts of NaN, infinity and zero. Prints a JSON line for each: what its tensor holds.

The third op reads infinity and writes NaN, the fifth reads and writes the same memory, the last one adds by atomics.
"""

import json

import torch


def facts(name, tensor):
    values = tensor.cpu().double()
    finite = values[torch.isfinite(values)]
    print(json.dumps({
        "op": name, "dtype": str(tensor.dtype), "count": values.numel(), "nan": int(values.isnan().sum()),
        "infinite": int(values.isinf().sum()), "zero": int((values == 0).sum()),
        "min": finite.min().item() if len(finite) else None, "max": finite.max().item() if len(finite) else None,
    }))


def main():
    x = torch.arange(-1024, 3072, dtype=torch.float32).cuda()
    where = torch.arange(4096).remainder(64).cuda()
    total = torch.zeros(64, device="cuda")
    logs = torch.log(x)
    wide = x.half() * 60_000
    lost = wide * 0
    near = x.bfloat16()
    x.add_(1)
    positive = torch.relu(x)
    small = positive.to(torch.float8_e5m2)
    total.index_add_(0, where, positive)
    for name, tensor in [("log", logs), ("wide", wide), ("lost", lost), ("near", near), ("x", x), ("positive", positive),
                         ("small", small), ("total", total), ("where", where)]:
        facts(name, tensor)


main()
