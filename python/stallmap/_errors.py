"""Errors and warnings of queries."""

from __future__ import annotations

from typing import Any, Optional


class Error(Exception):
    """A failure that the program `stallmap` reports.

    `error` is its text, `excerpt` the part of the statement, `hint` an action, `code` the exit code of the program.
    """

    def __init__(
        self, error: str, hint: Optional[str] = None, code: Optional[int] = None, excerpt: Optional[str] = None
    ) -> None:
        self.error = error
        self.hint = hint
        self.code = code
        self.excerpt = excerpt
        lines = [error, excerpt, f"hint: {hint}" if hint else None]
        super().__init__("\n".join(line for line in lines if line))

    def __reduce__(self) -> Any:
        return type(self), (self.error, self.hint, self.code, self.excerpt)


class LossWarning(UserWarning):
    """The capture lacks data. `capture.losses` lists it."""
