# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The host agent's archives that nothing names any more: each deploy with a newer collection adds one."""

from __future__ import annotations

import glob
import os

from .. import layout
from ..files import read_text


def prune(wanted: str) -> list[str]:
    """Remove every archive but ``wanted`` and those that a unit or a kept activation names; the paths that went.

    A unit that is in force calls its agent to stop the server; an activation that is put back calls its own.
    """
    found = set(glob.glob(os.path.join(glob.escape(layout.AGENT), "*.pyz"))) - {wanted}
    for pattern in (
        os.path.join(glob.escape(layout.UNITS), "sglang-*.service"),
        os.path.join(glob.escape(layout.ROOT), "*", "activations", "*", "activation.json"),
        os.path.join(glob.escape(layout.ROOT), "*", "activations", "*", "unit"),
    ):
        for path in glob.glob(pattern) if found else ():
            text = read_text(path) or ""
            found = {archive for archive in found if archive not in text}
    for archive in found:
        os.unlink(archive)
    return sorted(found)
