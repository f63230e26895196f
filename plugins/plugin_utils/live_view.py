# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A part of the terminal, below all that scrolls, that is drawn anew: a line a host with what it is doing now."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import threading
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

RUNNING, DONE, FAILED, UNREACHABLE = "running", "done", "failed", "unreachable"
_MARKS = {RUNNING: "▸", DONE: "✓", FAILED: "✗", UNREACHABLE: "✗"}
#: What is shown first where the screen is too low for all.
_ORDER = (FAILED, UNREACHABLE, RUNNING, DONE)
#: What an action plugin says of its host while a module runs (see ``progress``): the host, the time, the text.
_SAID = re.compile(r"(\S+): (?:\d\d:\d\d:\d\d )?(.+)\n")
#: Seconds between two drawings, at least and at most.
_PAUSE_S, _TICK_S = 0.1, 0.5


@dataclass
class Row:
    """What is known of one host: its state, since when, the phase (a task's name) and what was last said in it."""

    state: str = RUNNING
    phase: str = ""
    note: str = ""
    since: float = 0.0
    ended: float | None = None


@dataclass
class View:
    """The rows of a play, as text."""

    clock: Callable[[], float] = time.monotonic
    play: str = ""
    began: float = 0.0
    rows: dict[str, Row] = field(default_factory=dict)

    def start(self, play: str) -> None:
        """Another play: its hosts come as they begin."""
        self.play, self.began, self.rows = play, self.clock(), {}

    def begin(self, host: str, phase: str) -> None:
        self.rows[host] = Row(RUNNING, phase, "", self.clock())

    def note(self, host: str, text: str) -> bool:
        """What a running host says; ``False`` where it is none of them that speaks."""
        row = self.rows.get(host)
        if row is None or row.state != RUNNING:
            return False
        row.note = text
        return True

    def end(self, host: str, state: str, note: str = "") -> None:
        row = self.rows.setdefault(host, Row(since=self.clock()))
        row.state, row.note, row.ended = state, note, self.clock()

    def lines(self, width: int, height: int) -> list[str]:
        """The rows on so many columns and at most so many lines: those that fail or run before those that are done."""
        if not self.rows:
            return []
        counts = {state: sum(row.state == state for row in self.rows.values()) for state in _ORDER}
        said = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
        head = f"{self.play} · {clock(self.clock() - self.began)} · {said}"
        room = max(1, height - 1)
        ranked = sorted(self.rows.items(), key=lambda item: _ORDER.index(item[1].state))
        shown = {host for host, dummy in (ranked if len(ranked) <= room else ranked[: room - 1])}
        wide = max(len(host) for host in shown) if shown else 0
        lines = [head, *(self._line(host, row, wide) for host, row in self.rows.items() if host in shown)]
        if len(shown) < len(self.rows):
            lines.append(f"… and {len(self.rows) - len(shown)} more hosts")
        return [_fitting(line, width) for line in lines]

    def _line(self, host: str, row: Row, wide: int) -> str:
        taken = clock((self.clock() if row.ended is None else row.ended) - row.since)
        text = f"{row.phase} · {row.note}" if row.note else row.phase
        return f"{_MARKS[row.state]} {host:<{wide}}  {taken:>6}  {text}".rstrip()


def _fitting(line: str, width: int) -> str:
    """The line on one row of the terminal: one that took two or moved the cursor would stay when the rows go."""
    plain = "".join(char if char.isprintable() else " " for char in line)
    places = list(itertools.accumulate(map(_columns, plain)))
    if not places or places[-1] <= width:
        return plain
    return plain[: sum(place < width for place in places)] + "…"


def _columns(char: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clock(seconds: float) -> str:
    """``42 s``, ``2:05``, ``1:00:07``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class Screen:
    """Stands in for a stream to a terminal: what is written scrolls above the rows of a view.

    A thread draws them twice a second. A worker process that is forked from this one writes nothing here.
    """

    def __init__(self, stream: TextIO, view: View) -> None:
        self._stream, self._view = stream, view
        self._lock = threading.RLock()
        self._drawn = 0
        self._open = False  # the last line that was written has no end yet
        self._shown = False
        self._at = 0.0
        self._ended = threading.Event()
        os.register_at_fork(after_in_child=self._leave)
        threading.Thread(target=self._tick, daemon=True).start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._lock:
            said = _SAID.fullmatch(text)
            if said is not None and self._shown and self._view.note(said[1], said[2]):
                self.update()
                return len(text)
            self._erase()
            self._stream.write(text)
            self._open = not text.endswith("\n") if text else self._open
            self._draw()
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def show(self, shown: bool) -> None:
        """Draw the rows from now on, or take them away."""
        with self._lock:
            self._erase()
            self._shown = shown
            self._draw()

    def update(self) -> None:
        """The view has changed. Of a storm of changes (a task begins on 200 hosts) few are drawn; the rest soon."""
        if time.monotonic() - self._at >= _PAUSE_S:
            self.draw()

    def draw(self) -> None:
        with self._lock:
            self._draw()

    def close(self) -> TextIO:
        """Take the rows away for good; the stream."""
        self._ended.set()
        self.show(False)
        return self._stream

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write(f"\x1b[{self._drawn}A\r\x1b[J")
            self._drawn = 0

    def _draw(self) -> None:
        self._erase()
        if not self._shown or self._open:
            return
        size = shutil.get_terminal_size()
        # a line as wide as the terminal would take two; one line stays free for what scrolls
        lines = self._view.lines(size.columns - 1, size.lines - 1)
        self._stream.write("".join(line + "\n" for line in lines))
        self._stream.flush()
        self._drawn, self._at = len(lines), time.monotonic()

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_S):
            self.draw()

    def _leave(self) -> None:
        """In a forked process: the lock may be held by a thread that is not here."""
        self._lock = threading.RLock()
        self._shown, self._drawn = False, 0
