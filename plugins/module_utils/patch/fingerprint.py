# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The identity of a definition."""

from __future__ import annotations

import json

from ..files import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def digest(definition: dict[str, Any]) -> str:
    """SHA-256 of what a definition does: its name, range and edits. Titles and reasons may change freely."""
    parts = {name: definition[name] for name in ("name", "applies_to", "edits")}
    return sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode())
