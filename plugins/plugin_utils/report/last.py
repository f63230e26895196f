# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the last comparison came to, in one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from . import drift, text

_NAMED = 8


def verdict(paths: Sequence[str]) -> str | None:
    """The verdict of the newest of these reports; ``None`` where there is none."""
    found = [(json.loads(Path(path).read_text(encoding="utf-8")), path) for path in paths if Path(path).is_file()]
    if not found:
        return None
    report, path = max(found, key=lambda entry: entry[0]["made_at"])
    names = drift.with_state(report, drift.DRIFTED, drift.UNREACHABLE, drift.FAILED)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    named = f" ({', '.join(names[:_NAMED])}{more})" if names else ""
    return f"drift at {report['made_at']}: {text.head(report)}{named}; {path}"
