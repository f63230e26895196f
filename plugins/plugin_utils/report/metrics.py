# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A report as metrics in Prometheus' text format, for the textfile collector of node_exporter."""

from __future__ import annotations

import calendar
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from . import drift


def text(report: Mapping[str, Any]) -> str:
    """The metrics. A host that is as described has none of its own, so that a fleet in order costs few series."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterable[str]:
    yield from _family("sglang_drift_last_run_timestamp_seconds", "When the fleet was last compared.")
    made = calendar.timegm(time.strptime(report["made_at"], "%Y-%m-%dT%H:%M:%SZ"))
    yield f"sglang_drift_last_run_timestamp_seconds {made}"
    yield from _family("sglang_drift_hosts", "Hosts by what the comparison came to.")
    for state in drift.STATES:
        yield f'sglang_drift_hosts{{state="{state}"}} {report["summary"][state]}'
    yield from _family("sglang_drift_corrections", "Differences that this run has put right.")
    yield f"sglang_drift_corrections {report['summary']['corrections']}"
    yield from _family("sglang_drift_differences", "Differences that are there, by host, resource and consequence.")
    for name, host in report["hosts"].items():
        counts = Counter((d["resource"], d["consequence"]) for d in drift.left(host))
        for (resource, consequence), number in sorted(counts.items()):
            labels = f'host="{_label(name)}",resource="{_label(resource)}",consequence="{consequence}"'
            yield f"sglang_drift_differences{{{labels}}} {number}"
    yield from _family("sglang_drift_no_answer", "1 for a host that could not be reached or compared.")
    for name in drift.with_state(report, drift.UNREACHABLE, drift.FAILED):
        yield f'sglang_drift_no_answer{{host="{_label(name)}",state="{report["hosts"][name]["state"]}"}} 1'


def _family(name: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} gauge"


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
