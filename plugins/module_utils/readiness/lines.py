# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""From the bytes of a start's log to pieces of text.

A physical line ends at a newline and may hold many pieces: a progress bar redraws itself after a carriage return and
often never ends its line, and the next log record may follow it without any separator. A record begins with
``[2026-11-20 10:00:43 TP3]`` (Python's logging as SGLang sets it up; the ranks are those of the printing process);
what libraries print has no such prefix. There is no level in it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

# A single piece longer than this is cut: nothing that we look for is that long, and a log may hold binary rubbish.
LONGEST = 200_000
_LONGEST_BAR = 2000
_ENDS = re.compile(rb"[\r\n]")

_STAMP = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?"
_RECORD = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d+))?((?: [A-Z][A-Z_]*\d+)*)\] ?(.*)", re.DOTALL)
_GLUED = re.compile(r"(?<=[^\s'\"=])(?=" + _STAMP + r"(?: [A-Z][A-Z_]*\d+)*\] )")
# Python's logging with its default clock, as flashinfer sets it up for itself.
_PLAIN = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) - (?:[A-Z]+ - )?(.*)", re.DOTALL)
_TORCH_RANK = re.compile(r"\[rank(\d+)\]:? ?(.*)", re.DOTALL)
_TORCH_STAMP = re.compile(r"\[[WEIF](\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d+)")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# What journald, syslog, a container's runtime or who collects from it puts before a line.
_COLLECTED = re.compile(
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ \S+\[\d+\]: |[A-Za-z][\w.-]* +\| |"
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d) (?:\S+ \S+\[\d+\]: |std(?:out|err) [FP] )?"
)
# Keys as SGLang prints them: a field of its configuration, or its command line; the quotes are Python's or JSON's.
_KEYS = (
    re.compile(r"""(api_key['"]?\s*[=:]\s*)(['"])(?:\\.|(?!\2).)*\2"""),
    re.compile(r"""(--(?:admin-)?api-key(?:=|\s+|['"],\s*['"]))()[^\s'",]+"""),
)
_BAR = re.compile(
    r"(?P<label>.*?):?\s+(?P<percent>\d{1,3})%.*?(?P<done>\d+)/(?P<total>\d+)\s"
    r"\[(?P<elapsed>[\d:]+|\?)<(?P<left>[\d:]+|\?)"
)


@dataclass(frozen=True)
class Piece:
    """One piece of a log.

    ``number`` is that of the physical line, from 1. ``stamp`` is the record's time in seconds, the host's local time
    read as if it were UTC (only differences mean something), or ``None``. ``rank`` is as printed (``TP3``,
    ``DP1 TP0``, ``rank3``) or empty. ``message`` is the text after the prefix, without colours.
    """

    number: int
    text: str
    message: str
    stamp: float | None = None
    rank: str = ""
    record: bool = False


@dataclass(frozen=True)
class Bar:
    """A progress bar as ``tqdm`` draws it; ``elapsed`` and ``left`` in seconds, ``left`` unknown at first."""

    label: str
    done: int
    total: int
    elapsed: float
    left: float | None

    @property
    def percent(self) -> int:
        return 100 * self.done // self.total if self.total else 0


class Splitter:
    """Cuts a stream of bytes into pieces; give it whatever arrives, in order."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._number = 1

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces that ``data`` completes."""
        found: list[Piece] = []
        start = 0
        for match in _ENDS.finditer(data):
            self._rest += data[start : match.start()]
            found += self._pieces(self._rest)
            self._rest.clear()
            start = match.end()
            if match.group() == b"\n":
                self._number += 1
        self._rest += data[start:]
        return found

    def pending(self) -> list[Piece]:
        """A progress bar that is still being drawn: complete as far as it goes, and without an end yet."""
        drawn = len(self._rest) < _LONGEST_BAR and b"%" in self._rest
        return self._pieces(self._rest) if drawn else []

    def finish(self) -> list[Piece]:
        """The rest, when nothing more will come."""
        found = self._pieces(self._rest) if self._rest else []
        self._rest.clear()
        return found

    def _pieces(self, raw: bytearray) -> list[Piece]:
        text = without_keys(raw[:LONGEST].decode("utf-8", "replace"))
        if text.startswith("{"):
            wrapped = from_json(text, self._number)
            if wrapped:
                return wrapped
        if "[20" in text[1:]:
            return [parse(part, self._number) for part in _GLUED.split(text)]
        return [parse(text, self._number)]


def without_keys(text: str) -> str:
    """A line without the API keys in it: lines are returned and shown, and SGLang's own log has its keys in one."""
    if "api_key" in text or "api-key" in text:
        for pattern in _KEYS:
            text = pattern.sub(r"\1\2***\2", text)
    return text


def from_json(text: str, number: int) -> list[Piece]:
    """The pieces of a line that a container's runtime (``log``) or a formatter of Python's logging (``message``) has
    made an object of; none where it is no such object."""
    try:
        told = json.loads(text)
    except ValueError:
        return []
    if isinstance(told.get("log"), str):
        return [parse(part, number) for part in re.split(r"[\r\n]+", told["log"].rstrip("\r\n"))]
    said = next((told[key] for key in ("message", "msg", "event") if isinstance(told.get(key), str)), None)
    if said is None:
        return []
    more = next((told[key] for key in ("exc_info", "exception", "exc_text") if isinstance(told.get(key), str)), "")
    first, *rest = "\n".join(filter(None, (said, more))).split("\n")
    found = parse(first, number)
    if not found.record:
        found = Piece(number, first, found.message, _when(told), found.rank, True)
    return [found, *(parse(part, number) for part in rest)]


def _when(told: dict[str, Any]) -> float | None:
    """The time of an object, where one of its fields is one."""
    for key in ("asctime", "timestamp", "time", "ts"):
        value = told.get(key)
        if isinstance(value, str):
            try:
                return moment(value.replace(",", "."))
            except ValueError:
                continue
    return None


def parse(text: str, number: int) -> Piece:
    """One piece of text, with its prefix taken apart."""
    plain = _ANSI.sub("", text) if "\x1b" in text else text
    if plain[:1].isalpha() or plain[10:11] == "T":
        collected = _COLLECTED.match(plain)
        plain = plain[collected.end() :] if collected else plain
    record = _RECORD.match(plain)
    if record:
        when, fraction, ranks, message = record.groups()
        stamp = moment(when) + (float("0." + fraction) if fraction else 0.0)
        return Piece(number, text, message, stamp, ranks.strip(), True)
    torch = _TORCH_RANK.match(plain)
    if torch:
        return Piece(number, text, torch.group(2), None, "rank" + torch.group(1))
    other = _PLAIN.match(plain) if plain[:2] == "20" else None
    if other:
        when, fraction, message = other.groups()
        return Piece(number, text, message, moment(when) + float("0." + fraction), "", True)
    return Piece(number, text, plain)


def torch_stamp(message: str, year_of: float) -> float | None:
    """The time in the prefix of torch's C++ log (``[W1120 19:30:29.903 …``); its year is that of ``year_of``."""
    match = _TORCH_STAMP.match(message)
    if not match:
        return None
    year = datetime.fromtimestamp(year_of, timezone.utc).year
    month, day, clock, fraction = match.groups()
    try:
        return moment(f"{year}-{month}-{day} {clock}") + float("0." + fraction)
    except ValueError:
        return None


def progress_bar(message: str) -> Bar | None:
    """The progress bar in a piece, if it is one."""
    if "%" not in message or "/" not in message:
        return None
    match = _BAR.match(message)
    if not match:
        return None
    left = match["left"]
    return Bar(
        match["label"].strip(),
        int(match["done"]),
        int(match["total"]),
        _seconds(match["elapsed"]),
        None if left == "?" else _seconds(left),
    )


def moment(text: str) -> float:
    """Seconds of ``2026-11-20 10:00:43`` (or with a ``T``), read as if it were UTC.

    :raises ValueError: when the text is not a time.
    """
    when = datetime.fromisoformat(text.strip().replace("T", " ").rstrip("Z"))
    return when.replace(tzinfo=when.tzinfo or timezone.utc).timestamp()


def _seconds(clock: str) -> float:
    if clock == "?":
        return 0.0
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part or 0)
    return float(total)
