# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The one error that the collection's own logic raises."""

from __future__ import annotations

TYPE_CHECKING = False  # see files.py
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class InferopsError(Exception):
    """Something is wrong that the user can act on.

    ``message`` says what was found, what was wanted, on which file or option, and what to do.
    ``result`` carries what is already known (a partial result); it becomes part of the module's failure.
    """

    def __init__(self, message: str, **result: Any) -> None:
        super().__init__(message)
        self.message = message
        self.result = result


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The clause that suggests the closest known name, or an empty string.

    >>> nearest("num_step", ["num_steps", "eagle_topk"])
    "; did you mean 'num_steps'?"
    """
    # difflib costs 5 ms to import and is needed only on the way to an error
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""
