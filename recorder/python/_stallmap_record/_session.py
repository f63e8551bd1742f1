"""State of the recording in this process: the injected library, and its requests.

The library's session begins when CUDA does (the driver injects the library then). Until then nothing is recorded and
every hook returns at once: a process that never uses the GPU leaves no trace. A child that is forked before that has
its own session, which begins when the child starts CUDA.
"""

import json
import os
import sys

from _stallmap_record import _library

# For tests on machines without a GPU: tensors of the CPU count, and the session starts by itself.
CPU = os.environ.get("STALLMAP_PYTHON_CPU") == "1"

# A pass that measures time hooks regions only: Python would be slower than the GPU that it measures. The one run of
# `--one-run` has no other pass to take stacks and ops from. An only run of times takes stacks of launches, which the library
# reads by itself.
_CONFIG = json.loads(os.environ.get("STALLMAP_CONFIG") or "{}")
INSTRUMENT = _CONFIG.get("instrument")
_IS_ONLY_RUN = bool(_CONFIG.get("is_only_run"))
LIGHT = INSTRUMENT in ("timeline", "blocks") or (
    INSTRUMENT == "pc_samples" and _CONFIG.get("sampling") == "continuous" and not _IS_ONLY_RUN
)
HAS_STACKS = not LIGHT or _IS_ONLY_RUN

_RECORDING, _TENSORS, _PAUSED, _NEVER = 1, 2, 4, 8


class Session:
    """One per process. `active` is the one thing that hooks ask first."""

    def __init__(self):
        self.library = None
        self.active = False
        self.tensors = False
        # The program's request by `start` or `stop`. Before the first one, the options decide.
        self._paused = None
        self._is_settled = False
        self._started = False
        # Called in a forked child: data of the parent's session is not valid in the child's.
        self.forgetters = []

    def open(self):
        """Loads the library, at the first call. Returns whether there is one."""
        if not self._is_settled:
            self._is_settled = True
            self.library = _library.load()
        return self.library is not None

    def poll(self):
        """True if the session has begun by now and is not paused."""
        if self.library is None:
            return False
        if not self._started:
            mode = self.library.mode(int(CPU))
            if not mode & _RECORDING:
                if mode & _NEVER:
                    self._close()
                return False
            self._begin(mode)
        return self.active

    def _begin(self, mode):
        self._started = True
        self.tensors = bool(mode & _TENSORS)
        if self._paused is None:
            self._paused = bool(mode & _PAUSED)
        self.library.pause(self._paused)
        self.active = not self._paused
        self.library.fact("python_version", sys.version.split()[0])
        torch = sys.modules.get("torch")
        if torch is not None:
            self.library.fact("torch_version", str(torch.__version__))

    def pause(self, paused):
        """Stops or resumes recording."""
        if not self.open():
            return
        self._paused = paused
        if not self._started:
            self.poll()
            return
        self.active = not paused
        self.library.pause(paused)

    def _close(self):
        """Ends recording in this process: the library never will record in it."""
        self._is_settled = True
        self.active = False
        self.library = None

    def forked(self):
        """Leaves the parent's session in a forked child, which has its own when it starts CUDA.

        Where the parent had started CUDA, the child cannot use it: the library says so at the next `poll`.
        """
        self.active = False
        self._started = False
        for forget in self.forgetters:
            forget()


SESSION = Session()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SESSION.forked)
