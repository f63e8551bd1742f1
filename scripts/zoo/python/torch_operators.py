"""Every operator of PyTorch's own test data, forward and backward: the ops that run for each, and how it ends.

PyTorch runs other ops where a program intercepts them. It must not take the recorder for one.
"""

import hashlib
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 2
# Their ops depend on memory contents or on time.
LEFT_OUT = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


def leaves(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from leaves(element)


def run(op, sample):
    results = list(leaves(op(sample.input, *sample.args, **sample.kwargs)))
    sums = [result.sum() for result in results if result.requires_grad and result.is_floating_point()]
    if sums:
        sum(sums).backward()
    torch.cuda.synchronize()


def describe(op, sample):
    torch.manual_seed(0)
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        try:
            run(op, sample)
            end = "ok"
        except Exception as error:
            end = type(error).__name__
    events = sorted(profile.function_events, key=lambda event: (event.time_range.start, event.id))
    names = [event.name for event in events if event.name.startswith("aten::")]
    return f"{end} {len(names)} {hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}"


def main():
    warnings.simplefilter("ignore")
    for op in op_db:
        dtypes = op.supported_dtypes("cuda")
        if op.name in LEFT_OUT or not dtypes:
            continue
        dtype = torch.float32 if torch.float32 in dtypes else min(dtypes, key=str)
        has_gradient = op.supports_autograd and dtype.is_floating_point
        try:
            samples = list(op.sample_inputs("cuda", dtype, requires_grad=has_gradient))[:SAMPLES]
        except Exception as error:
            print(op.formatted_name, "has no samples:", type(error).__name__)
            continue
        print(op.formatted_name, *(describe(op, sample) for sample in samples), flush=True)


main()
