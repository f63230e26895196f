# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""How a compute capability is written: ``12.0``, as nvidia-smi prints it. Compilers and torch write it otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import InferopsError


def require(texts: Iterable[str], what: str, suffixes: str = "") -> None:
    """Refuse what is no compute capability; ``suffixes`` are letters that may follow it (``90a`` in code for a card).

    :raises InferopsError: it says how the capability that may be meant is written.
    """
    for text in texts:
        if not re.fullmatch(rf"\d+\.\d[{suffixes}]?" if suffixes else r"\d+\.\d", text):
            meant = _meant(text)
            example = f"write {' and '.join(map(repr, meant))}" if meant else "write '9.0' for H200, '12.0' for RTX PRO"
            several = ", as two entries of the list" if len(meant) == 2 else ""
            raise InferopsError(f"{what}: {text!r} is no compute capability; {example}{several}")


def _meant(text: str) -> list[str]:
    """The capabilities in ``sm_120``, ``compute_90a``, ``120`` or ``9.0;12.0+PTX``."""
    found = re.findall(r"(?<![\d.])(\d{1,2})\.?(\d)(?![\d.])", text)
    return [f"{major}.{minor}" for major, minor in found if 5 <= int(major) <= 19]
