# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The answer of an edit."""

from __future__ import annotations

from dataclasses import dataclass, field

from .source import Splice


@dataclass
class Outcome:
    """``missing`` is what would have to be written (nothing: the edit is satisfied), ``found`` how many of its parts
    are there, ``notes`` which of those are there in another form than the edit would give them."""

    missing: list[Splice] = field(default_factory=list)
    found: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def satisfied(self) -> bool:
        return not self.missing
