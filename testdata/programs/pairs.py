"""Pairs of PyTorch and Triton code: inefficient in one known way, and with the advice of its finding taken.

pairs.py GROUP [--take PIECE] [--steps N]: steps of all pieces of a group, as they are or with the advice for one taken.
pairs.py GROUP ... --time: the step as it is, and with each advice taken, in turns. Prints a JSON line for each, nanoseconds.

Groups: torch and more (the GPU is busy), triton, activation, and graph, items, optimizer, input, select (the GPU waits for the
host).
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

SIDE = 8192


class Piece:
    """Work of a step. `bad` and `good` compute the same; `finding` names what the first one suffers from."""

    finding = ""

    def bad(self):
        raise NotImplementedError

    def good(self):
        raise NotImplementedError


class TransposedOperand(Piece):
    finding = "uncoalesced_view"

    def __init__(self):
        self.rows, self.columns = torch.rand(SIDE, SIDE, device="cuda"), torch.rand(SIDE, SIDE, device="cuda")
        self.contiguous = self.columns.t().contiguous()

    def bad(self):
        return self.rows + self.columns.t()

    def good(self):
        return self.rows + self.contiguous


class CopyForOneUse(Piece):
    finding = "layout_copy"

    def __init__(self):
        self.rows, self.columns = torch.rand(SIDE, SIDE, device="cuda"), torch.rand(SIDE, SIDE, device="cuda")

    def bad(self):
        laid_out = self.columns.t().contiguous()
        return torch.mul(self.rows, laid_out)

    def good(self):
        return torch.mul(self.rows, self.columns.t())


class LayoutAtItsSource(Piece):
    """New data at each step: the product can be written in the layout that the sum reads."""

    finding = "uncoalesced_view"

    def __init__(self):
        self.rows = torch.rand(SIDE, SIDE, device="cuda")
        self.a, self.b = torch.rand(SIDE, 64, device="cuda"), torch.rand(64, SIDE, device="cuda")

    def bad(self):
        made = self.a @ self.b
        return torch.add(self.rows, made.t())

    def good(self):
        made = self.b.t() @ self.a.t()
        return torch.add(self.rows, made)


class CastAtEachUse(Piece):
    finding = "repeated_cast"

    def __init__(self):
        self.weight = torch.rand(SIDE, SIDE, device="cuda")
        self.inputs = [torch.rand(64, SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(3)]

    def bad(self):
        return sum(torch.mm(x, self.weight.to(torch.bfloat16)) for x in self.inputs)

    def good(self):
        weight = self.weight.to(torch.bfloat16)
        return sum(torch.mm(x, weight) for x in self.inputs)


class CopyBeforeUse(Piece):
    finding = "redundant_copy"

    def __init__(self):
        self.state = torch.rand(SIDE, SIDE, device="cuda")

    def bad(self):
        state = self.state.clone()
        return state.abs()

    def good(self):
        return self.state.abs()


class FewRowsAtOnce(Piece):
    finding = "gather_latency"

    def __init__(self):
        self.table = torch.rand(1 << 18, 64, device="cuda")
        self.parts = [torch.randint(0, 1 << 18, (2048,), device="cuda") for _ in range(16)]
        self.all = torch.cat(self.parts)

    def bad(self):
        return [F.embedding(part, self.table) for part in self.parts]

    def good(self):
        return F.embedding(self.all, self.table)


class GradientOfIndex(Piece):
    finding = "costly_backward"

    def __init__(self):
        self.table = torch.rand(1 << 16, 256, device="cuda", requires_grad=True)
        self.index = torch.randint(0, 1 << 16, (1 << 18,), device="cuda")

    def bad(self):
        rows = self.table[self.index]
        return torch.autograd.grad(rows.sum(), self.table)

    def good(self):
        rows = F.embedding(self.index, self.table)
        return torch.autograd.grad(rows.sum(), self.table)


class GradientOfUnbind(Piece):
    """The gradient puts the parts together again. The advice is to use the complete tensor."""

    finding = "costly_backward"

    def __init__(self):
        self.values = torch.rand(2, 4096, 8192, device="cuda", requires_grad=True)
        self.weights = torch.rand(2, 4096, 8192, device="cuda")

    def bad(self):
        first, second = self.values.unbind(0)
        weighted = first * self.weights[0] + second * self.weights[1]
        return torch.autograd.grad(weighted.sum(), self.values)

    def good(self):
        weighted = self.values * self.weights
        return torch.autograd.grad(weighted.sum(), self.values)


class ManualActivation(Piece):
    finding = "small_kernels"

    def __init__(self):
        self.values = torch.rand(1 << 21, device="cuda")

    def bad(self):
        x = self.values
        for _ in range(3):
            x = 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
        return x

    def good(self):
        x = self.values
        for _ in range(3):
            x = F.gelu(x, approximate="tanh")
        return x


class SinglePrecision(Piece):
    finding = "idle_tensor_cores"

    def __init__(self):
        self.a, self.b = torch.rand(4096, 4096, device="cuda"), torch.rand(4096, 4096, device="cuda")

    def bad(self):
        return self.a @ self.b

    def good(self):
        torch.backends.cuda.matmul.allow_tf32 = True
        result = self.a @ self.b
        torch.backends.cuda.matmul.allow_tf32 = False
        return result


class ZerosToOverwrite(Piece):
    finding = "dead_write"

    def __init__(self):
        self.a, self.b = torch.rand(SIDE, SIDE, device="cuda"), torch.rand(SIDE, SIDE, device="cuda")

    def bad(self):
        result = torch.zeros(SIDE, SIDE, device="cuda")
        return torch.sub(self.a, self.b, out=result)

    def good(self):
        result = torch.empty(SIDE, SIDE, device="cuda")
        return torch.sub(self.a, self.b, out=result)


class SoftmaxByHand(Piece):
    finding = "busy_memory"

    def __init__(self):
        self.scores = torch.rand(SIDE, SIDE, device="cuda")

    def bad(self):
        exponents = torch.exp(self.scores - self.scores.amax(1, keepdim=True))
        return exponents / exponents.sum(1, keepdim=True)

    def good(self):
        return torch.softmax(self.scores, 1)


class ProductOfEachRow(Piece):
    finding = "small_kernels"

    def __init__(self):
        self.a, self.b = torch.rand(48, 64, 64, device="cuda"), torch.rand(48, 64, 64, device="cuda")

    def bad(self):
        return [torch.mm(a, b) for a, b in zip(self.a, self.b)]

    def good(self):
        return torch.bmm(self.a, self.b)


class TimesItsTranspose(Piece):
    finding = "uncoalesced_view"

    def __init__(self):
        self.values = torch.rand(SIDE, SIDE, device="cuda")
        self.contiguous = self.values.t().contiguous()

    def bad(self):
        return torch.mul(self.values.t(), self.values)

    def good(self):
        return torch.mul(self.contiguous, self.values)


class SumsByIndex(Piece):
    finding = "atomic_wait"

    def __init__(self):
        self.values = torch.rand(1 << 20, device="cuda")
        self.index = torch.zeros(1 << 20, dtype=torch.long, device="cuda")
        self.sums = torch.zeros(64, device="cuda")

    def bad(self):
        return self.sums.index_add(0, self.index, self.values)

    def good(self):
        parts = self.values.view(64, -1).sum(1)
        return self.sums.index_add(0, self.index[:64], parts)


class SelectedRows(Piece):
    """The number of selected rows goes to the host. The advice is to keep it on the GPU."""

    finding = "cpu_bound"

    def __init__(self):
        self.rows = [torch.rand(4096, 64, device="cuda") for _ in range(12)]

    def bad(self):
        return [rows[rows[:, 0] > 0.5].sum() for rows in self.rows]

    def good(self):
        return [torch.where(rows[:, :1] > 0.5, rows, 0.0).sum() for rows in self.rows]


class LaunchedLayers(Piece):
    """A network of small layers. The advice is a CUDA graph."""

    finding = "cpu_bound"

    def __init__(self):
        layers = [layer for _ in range(24) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.LayerNorm(256))]
        self.network = torch.nn.Sequential(*layers).cuda()
        self.input = torch.rand(256, 256, device="cuda")
        self.graph = None

    @torch.no_grad()
    def bad(self):
        return self.network(self.input)

    @torch.no_grad()
    def good(self):
        if self.graph is None:
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                self.network(self.input)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.output = self.network(self.input)
        self.graph.replay()
        return self.output


class ReadBetweenLayers(Piece):
    """Each layer's norm is read by the host. The advice is to read them once, at the end."""

    finding = "cpu_bound"

    def __init__(self):
        self.layers = [torch.nn.Linear(2048, 2048).cuda() for _ in range(12)]
        self.input = torch.rand(256, 2048, device="cuda")

    @torch.no_grad()
    def bad(self):
        x, norms = self.input, []
        for layer in self.layers:
            x = layer(x)
            norms.append(x.norm().item())
        return norms

    @torch.no_grad()
    def good(self):
        x, norms = self.input, []
        for layer in self.layers:
            x = layer(x)
            norms.append(x.norm())
        return torch.stack(norms).tolist()


class LoopOverParameters(Piece):
    """An optimizer that visits each parameter. The advice is the fused one."""

    finding = "cpu_bound"

    def __init__(self):
        self.parameters = [torch.rand(256, 256, device="cuda", requires_grad=True) for _ in range(48)]
        for parameter in self.parameters:
            parameter.grad = torch.rand_like(parameter)
        self.loop = torch.optim.AdamW(self.parameters, lr=1e-3, foreach=False)
        self.fused = torch.optim.AdamW(self.parameters, lr=1e-3, fused=True)

    def bad(self):
        self.loop.step()

    def good(self):
        self.fused.step()


class LateBatches(Piece):
    """Batches are made and copied when they are needed. The advice is to load ahead."""

    finding = "cpu_bound"

    def __init__(self):
        self.layer = torch.nn.Linear(2048, 2048).cuda()
        self.samples = torch.rand(1024, 2048)
        self.pinned = [torch.empty(1024, 2048).pin_memory() for _ in range(2)]
        self.turn = 0

    def work(self, batch):
        for _ in range(16):
            batch = self.layer(batch)
        return batch.sum().item()

    @torch.no_grad()
    def bad(self):
        batch = self.samples * 0.5 + 1.0
        return self.work(batch.to("cuda"))

    @torch.no_grad()
    def good(self):
        if self.turn == 0:
            torch.add(self.samples * 0.5, 1.0, out=self.pinned[0])
        batch = self.pinned[self.turn % 2].to("cuda", non_blocking=True)
        for _ in range(16):
            batch = self.layer(batch)
        # While the GPU works.
        self.turn += 1
        torch.add(self.samples * 0.5, 1.0, out=self.pinned[self.turn % 2])
        return batch.sum().item()


def triton_pieces():
    """Triton is imported only where its group is asked for."""
    import pairs_triton

    return pairs_triton.PIECES


TORCH = [
    TransposedOperand, CopyForOneUse, LayoutAtItsSource, CastAtEachUse, CopyBeforeUse, FewRowsAtOnce, GradientOfIndex, GradientOfUnbind,
    SinglePrecision, ZerosToOverwrite,
]
MORE = [SoftmaxByHand, ProductOfEachRow, TimesItsTranspose, SumsByIndex]
GROUPS = {
    "torch": lambda: TORCH,
    "triton": triton_pieces,
    "activation": lambda: [ManualActivation],
    "graph": lambda: [LaunchedLayers],
    "items": lambda: [ReadBetweenLayers],
    "optimizer": lambda: [LoopOverParameters],
    "input": lambda: [LateBatches],
    "more": lambda: MORE,
    "select": lambda: [SelectedRows],
}


def step(pieces, taken, number):
    with torch.profiler.record_function(f"ProfilerStep#{number}"):
        for piece in pieces:
            if piece is taken:
                piece.good()
            else:
                piece.bad()


def measured(pieces, taken, steps):
    """Nanoseconds of a step, of some that follow each other."""
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for number in range(steps):
        step(pieces, taken, number)
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) / steps


def time_all(pieces, group):
    versions = [None, *pieces]
    times = {version: [] for version in versions}
    for turn in range(7):
        for version in versions:
            took = measured(pieces, version, 10)
            if turn:
                times[version].append(took)
    whole = statistics.median(times[None])
    for piece in pieces:
        row = {"group": group, "pair": type(piece).__name__, "finding": piece.finding, "bad_ns": round(whole)}
        row["good_ns"] = round(statistics.median(times[piece]))
        row["spread_ns"] = round(statistics.pstdev(times[None]))
        print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", choices=GROUPS)
    parser.add_argument("--take", help="class of the piece whose advice is taken")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.time:
        for group in options.groups:
            time_all([piece() for piece in GROUPS[group]()], group)
        return
    pieces = [piece() for group in options.groups for piece in GROUPS[group]()]
    taken = next((piece for piece in pieces if type(piece).__name__ == options.take), None)
    for number in range(options.steps):
        step(pieces, taken, number)
    torch.cuda.synchronize()
    print(json.dumps({"groups": options.groups, "taken": options.take, "steps": options.steps}))


if __name__ == "__main__":
    main()
