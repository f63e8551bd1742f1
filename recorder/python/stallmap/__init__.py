"""Interface of recorded programs to stallmap. It is harmless where nothing is recorded.

    with stallmap.region("attention"):
        ...

    @stallmap.region("step")
    def step(): ...

    stallmap.start()    # with `stallmap-record --paused`
    stallmap.stop()
"""

from stallmap._region import region
from stallmap._session import start, stop

__all__ = ["region", "start", "stop"]
