"""Optimizers: steps are counted, gradients and state are named."""

from torch.compiler import is_compiling

from _stallmap_record._session import SESSION


class Optimizers:
    """Hooks of every optimizer, but for compiled steps."""

    def __init__(self, library, names):
        self._library = library
        self._names = names
        self.steps = 0

    def hook(self):
        """Hooks every step of every optimizer."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(self._before)
        register_optimizer_step_post_hook(self._after)

    def _before(self, optimizer, args, kwargs):
        # Hooks become part of a compiled step. This one would be traced, and compiled again at each step.
        if is_compiling():
            return
        self._names.announce_gradients([p for group in optimizer.param_groups for p in group["params"]])

    def _after(self, optimizer, args, kwargs):
        if is_compiling():
            return
        self.steps += 1
        if not (SESSION.active and SESSION.tensors):
            return
        try:
            self._names.announce_state(optimizer)
        except Exception as error:
            self._library.lose_tensor("an optimizer state's name is not known", error)
