"""Failures of the hooks: left in the recording's folder, where `stallmap-record` counts each as a loss."""

import os

# Failures per process that are left. More of them say the same.
_MOST = 20
_MOST_CHARACTERS = 500

_count = 0


def leave(reason, error):
    """Writes why something is not recorded. Nothing is raised: the program must go on."""
    global _count
    try:
        if _count >= _MOST:
            return
        _count += 1
        import json

        folder = json.loads(os.environ["STALLMAP_CONFIG"])["directory"]
        detail = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        loss = {"process_id": os.getpid(), "reason": reason, "detail": detail[:_MOST_CHARACTERS]}
        name = f"hooks-{os.getpid()}-{_count}.json"
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(loss, file)
    except Exception:
        pass
