# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs drift.yml through ansible-runner, one run at a time, and says by its exit status what it came to.

0: every host is as described (or was put right). 10: hosts differ. 11: hosts did not answer or could not be compared.
12: the run itself failed, so nothing is known; its output lies below ``runner/artifacts``. 75: another run is going on.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

IN_ORDER, DRIFTED, UNKNOWN, FAILED, BUSY = 0, 10, 11, 12, 75
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPAN = re.compile(r"(?:([A-Za-z,]+)\s+)?(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")


def window_end(window: str, now: datetime.datetime) -> datetime.datetime | None:
    """When the window that ``now`` is in ends; ``None`` outside of every window. A span may reach over midnight.

    :raises ValueError: for a window that means nothing.
    """
    ends = []
    for text in filter(None, (part.strip() for part in window.split(";"))):
        match = _SPAN.fullmatch(text)
        if match is None:
            raise ValueError(f"the window {text!r} is not like 'Sat,Sun 02:00-05:00'")
        names, *clock = match.groups()
        days = _days(names, text)
        first, last = (_minutes(*clock[at : at + 2], text) for at in (0, 2))
        length = datetime.timedelta(minutes=(last - first) % (24 * 60) or 24 * 60)
        for back in (0, 1):
            day = now.date() - datetime.timedelta(days=back)
            begin = datetime.datetime.combine(day, datetime.time()) + datetime.timedelta(minutes=first)
            if day.weekday() in days and begin <= now < begin + length:
                ends.append(begin + length)
    return max(ends, default=None)


def _days(names: str | None, text: str) -> set[int]:
    if not names:
        return set(range(7))
    found = {name[:3].lower() for name in names.split(",")}
    if not found <= set(DAYS):
        raise ValueError(f"the window {text!r} names a day that does not exist; days are {', '.join(DAYS)}")
    return {DAYS.index(name) for name in found}


def _minutes(hours: str, minutes: str, text: str) -> int:
    if int(hours) > 24 or int(minutes) > 59 or int(hours) * 60 + int(minutes) > 24 * 60:
        raise ValueError(f"the window {text!r} names a time that does not exist")
    return int(hours) * 60 + int(minutes)


def variables(settings: dict[str, Any], now: datetime.datetime) -> dict[str, Any]:
    """What the playbook is told."""
    told = {**settings["extra_vars"], "reports": str(Path(settings["folder"]) / "reports")}
    if settings["metrics"]:
        told["drift_metrics"] = settings["metrics"]
    end = window_end(settings["window"], now)
    if settings["correct"] and (end is not None or not settings["window"].strip()):
        told.update(correct=True, drift_until=int(end.timestamp()) if end else 0)
    return told


def verdict(report: dict[str, Any] | None) -> int:
    """The exit status for the report that a run has written."""
    if report is None:
        return FAILED
    summary = report["summary"]
    if summary["unreachable"] or summary["failed"]:
        return UNKNOWN
    return DRIFTED if summary["drifted"] else IN_ORDER


def run(settings: dict[str, Any], now: datetime.datetime) -> int:
    """One run; the lock keeps a second one away, a timer's or a person's."""
    folder = Path(settings["folder"])
    with open(folder / "lock", "a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another run is going on")
            return BUSY
        import ansible_runner

        # what it was told once, ansible-runner keeps there for every later run: that it may correct, say
        shutil.rmtree(folder / "runner" / "env", ignore_errors=True)
        path = folder / "reports" / "drift.json"
        before = path.stat().st_mtime_ns if path.exists() else 0
        done = ansible_runner.run(
            private_data_dir=str(folder / "runner"),
            project_dir=settings["project"],
            playbook=settings["playbook"],
            inventory=os.path.join(settings["project"], settings["inventory"]),
            extravars=variables(settings, now),
            cmdline=settings["cmdline"] or None,
            # ansible-playbook lies beside the interpreter that has it
            envvars={"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"},
            rotate_artifacts=settings["keep"],
            quiet=True,
        )
        fresh = path.exists() and path.stat().st_mtime_ns != before
        report = json.loads(path.read_text(encoding="utf-8")) if fresh else None
    status = verdict(report)
    if status == IN_ORDER and done.status != "successful":
        status = FAILED  # it was ended, or failed at something else, after a report that is no news any more
    print(f"{done.status}: {json.dumps(report['summary']) if report else 'no report was written'}")
    if status == FAILED:
        print(f"see {done.config.artifact_dir}/stdout")
    return status


def main(words: list[str]) -> int:
    """Run by the settings in a file; with ``--check`` before it, only see that they mean something."""
    try:
        settings = json.loads(Path(words[-1]).read_text(encoding="utf-8"))
        if words[0] == "--check":
            window_end(settings["window"], datetime.datetime.now())
            return IN_ORDER
        return run(settings, datetime.datetime.now())
    except Exception as error:  # whatever it is: systemd is told that nothing is known, and the journal why
        print(f"the run failed: {type(error).__name__}: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
