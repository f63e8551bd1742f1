"""Ops as the library wants them: begin with arguments, end with results."""

import torch

from _stallmap_record import _storages
from _stallmap_record._session import SESSION
from _stallmap_record._stacks import caller
from _stallmap_record._tensors import IN, INOUT, MENTIONED, NO_BASE, OUT, is_tensor
from _stallmap_record._threads import HERE

TORCH, TRITON, REGION, _, TUNING = range(5)
_FORWARD, _BACKWARD, _OPTIMIZER = 0, 1, 2


class Recorder:
    """Begins and ends ops on the running thread."""

    def __init__(self, library, stacks, compiled, tensors, autograd, optimizers):
        self.library = library
        self._compiled = compiled
        self._stacks = stacks
        self._tensors = tensors
        self._autograd = autograd
        self._optimizers = optimizers

    def header(self, kind, text, frame, has_node):
        """The first words of an op, its sequence number where autograd made a node for it, and its stack."""
        autograd = self._autograd
        node = autograd.node()
        outer = autograd.outer_stack() if node is not None else None
        stack = self._stacks.here(frame, outer, node is not None)
        # The node of compiled code is made before its first kernel.
        made = autograd.forward_sequence() if has_node or stack.is_generated else -1
        origin = stack.origin
        if node is not None:
            phase, (name, sequence, (forward, callers)) = _BACKWARD, node
        elif origin is not None and origin.is_backward:
            phase, name, sequence, forward, callers = _BACKWARD, 0, -1, 0, []
        else:
            # A closure that the optimizer calls computes the loss again, with gradients.
            in_optimizer = stack.in_optimizer and not torch.is_grad_enabled()
            phase, name, sequence, forward = _OPTIMIZER if in_optimizer else _FORWARD, 0, made, 0
        module = HERE.module
        if stack.is_generated:
            # One node stands for all of a compiled backward: its number is that of one forward op among many.
            forward = 0
            if origin is not None:
                module = self._compiled.module(origin, module)
                forward = self._compiled.forward_op(origin, callers) if phase == _BACKWARD else 0
        step = self._optimizers.steps
        return [kind, text, phase, step, sequence, name, forward, module, bool(stack.fields), stack.hash], made, stack

    def begin(self, schema, args, kwargs, frame):
        """Begins an op of PyTorch: (op_id, records, where results may be views)."""
        words, made, stack = self.header(TORCH, schema.text, frame, True)
        places = self._arguments(words, schema, args, kwargs) if SESSION.tensors else (0, ())
        return self._remembered(words, made, stack), *places

    def end(self, schema, op, result):
        """Ends it. `op` is the result of `begin`."""
        words = [op[0]]
        if SESSION.tensors and result is not None:
            self._results(words, schema, op[2], result)
        self.library.op_end(words)

    def _arguments(self, words, schema, args, kwargs):
        if schema.arguments is None:
            return self.plain(words, [*args, *kwargs.values()]), ()
        add, count, viewed = self._tensors.add, 0, []
        given = len(args)
        for index, name, text, is_list, is_written, may_be_viewed in schema.arguments:
            value = args[index] if index < given else kwargs.get(name)
            direction = INOUT if is_written else IN
            if is_list and value is not None:
                for element, tensor in enumerate(value):
                    if is_tensor(tensor):
                        count += add(words, tensor, direction, index, element, text, NO_BASE)
                continue
            # None, or a number that PyTorch takes for a tensor.
            if not is_tensor(value):
                continue
            base = NO_BASE
            if value._is_view() and add(words, value._base, MENTIONED, 0, 0, 0, NO_BASE):
                base, count = count, count + 1
            if add(words, value, direction, index, 0, text, base):
                if may_be_viewed:
                    viewed.append((_storages.of(value)[0], count))
                count += 1
        return count, viewed

    def plain(self, words, values):
        """Arguments of which no schema is known."""
        count = 0
        for position, value in enumerate(values):
            for element, tensor in enumerate(value if isinstance(value, (list, tuple)) else (value,)):
                if is_tensor(tensor):
                    count += self._tensors.add(words, tensor, IN, position, element, 0, NO_BASE)
        return count

    def _results(self, words, schema, viewed, result):
        written = schema.written
        results = result if isinstance(result, tuple) and len(written) != 1 else (result,)
        for position, value in enumerate(results):
            if position < len(written) and written[position]:
                continue
            if is_tensor(value):
                self._result(words, value, position, 0, viewed)
            elif isinstance(value, (list, tuple)):
                for element, tensor in enumerate(value):
                    if is_tensor(tensor):
                        self._result(words, tensor, position, element, viewed)

    def _result(self, words, tensor, position, element, viewed):
        base = NO_BASE
        if viewed:
            address, _ = _storages.of(tensor)
            for place, index in viewed:
                if place == address:
                    base = index
        self._tensors.add(words, tensor, OUT, position, element, 0, base)

    def launch(self, text, names, values):
        """Begins the launch of a Triton kernel. Returns its op_id."""
        words, made, stack = self.header(TRITON, text, caller(2), False)
        if SESSION.tensors:
            for position, (name, value) in enumerate(zip(names, values)):
                if is_tensor(value):
                    # Arguments with these names in compiled code are written by the kernel. Names in other kernels show
                    # nothing.
                    is_written = name.startswith(("out_ptr", "in_out_ptr"))
                    direction = INOUT if is_written else IN
                    self._tensors.add(words, value, direction, position, 0, self.library.text(name), NO_BASE)
        return self._remembered(words, made, stack)

    def _remembered(self, words, made, stack):
        """Begins an op, which may be the forward op of a node."""
        op_id = self.library.op_begin(words)
        if made >= 0:
            self._autograd.remember(made, op_id, stack.callers)
        return op_id

    def region(self, name):
        """Begins a region of the program. Returns its op_id."""
        words, _, _ = self.header(REGION, self.library.text(name), caller(2), False)
        return self.library.op_begin(words)

    def tuning(self, name):
        """Begins trials of a tuner. Returns the op_id."""
        words, _, _ = self.header(TUNING, self.library.text(name), caller(3), False)
        return self.library.op_begin(words)

    def package(self, name, values):
        """Begins the call of a model that was compiled ahead of time. Returns the op_id."""
        words, _, _ = self.header(TORCH, self.library.text(name), caller(3), False)
        if SESSION.tensors:
            self.plain(words, values)
        return self.library.op_begin(words)
