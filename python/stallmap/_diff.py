"""A comparison of captures."""

from __future__ import annotations

from typing import Dict, Iterator, List

from stallmap._errors import Error
from stallmap._result import Result


class Diff:
    """Sections of `stallmap diff` by name: `comparable`, `totals`, and the compared parts."""

    def __init__(self, sections: Dict[str, Result]) -> None:
        self._sections = sections

    def __getitem__(self, name: str) -> Result:
        if name not in self._sections:
            raise Error(f"the comparison has no section `{name}`", f"sections: {', '.join(self._sections)}", 2)
        return self._sections[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)

    def keys(self) -> List[str]:
        """The names of the sections."""
        return list(self._sections)

    @property
    def comparable(self) -> Result:
        """Facts of the captures, and what their differences mean."""
        return self["comparable"]

    @property
    def totals(self) -> Result:
        """Sums over everything."""
        return self["totals"]

    def __repr__(self) -> str:
        return f"<stallmap.Diff: {', '.join(self._sections)}>"

    def _repr_html_(self) -> str:
        # Names of sections are stallmap's own.
        return "".join(f"<h4>{name}</h4>{result._repr_html_()}" for name, result in self._sections.items())
