# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the last comparison came to, in one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import drift, text

_NAMED = 8


def verdict(paths: Sequence[str]) -> str | None:
    """The verdict of the newest of these reports; ``None`` where there is none."""
    found = [(report, path) for path in paths if (report := _read(Path(path))) is not None]
    if not found:
        return None
    report, path = max(found, key=lambda entry: entry[0]["made_at"])
    names = drift.with_state(report, drift.DRIFTED, drift.UNREACHABLE, drift.FAILED)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    named = f" ({', '.join(names[:_NAMED])}{more})" if names else ""
    return f"drift at {report['made_at']}: {text.head(report)}{named}; {path}"


def _read(path: Path) -> dict[str, Any] | None:
    """A report; ``None`` where there is no file, or one that is no report of this form."""
    try:
        report = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return report if isinstance(report, dict) and report.get("format") == drift.FORMAT else None
