# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Tracebacks in a log that many processes write at once.

A scheduler logs its traceback as one record, but its lines may be split by lines of other ranks, and two tracebacks
may be interleaved line by line. Lines of a traceback carry no rank. What can be relied on: a traceback opens with
``Traceback (most recent call last):``, its frames are indented, and the first line after them that is not is the
exception. With several open, the exception belongs to the one whose rank it names, or else to the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .lines import Piece

OPENS = "Traceback (most recent call last):"
_OWNER = re.compile(r"(?P<who>\w+) hit an exception: |(?P<warmup>Initialization failed\. warmup error: )")
_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?::(?:\s|$)|$)")
_NOT_EXCEPTION = frozenset({"Killed", "Warning"})
_CHAINED = re.compile(
    r"The above exception was the direct cause of|During handling of the above exception, another exception"
)
# A traceback that SGLang prints and survives.
_HARMLESS = re.compile(
    r"freeze_gc failed|Exception in ASGI application|Task exception was never retrieved|^Exception (?:ignored )?in"
)
# What another process says, or the same one at its very end: no line of an exception's message.
_OTHERS = re.compile(r"Fatal Python error: |terminate called |Process \w+-\d+:$")
# The further lines of torch's message on a CUDA error, within a record too.
_CUDA_TAIL = re.compile(
    r"Search for `|CUDA kernel errors might be|For debugging consider passing|Compile with `TORCH_USE"
)
# Which rank, or whose card, an exception speaks of.
_NAMED = re.compile(r"\bTP rank (\d+) could|\bGPU (\d+) has a total capacity")
# The HTTP server logs what ends it.
_SERVERS = re.compile(r"(?:ERROR|CRITICAL):")
_OUTERMOST = re.compile(r"(?:sglang/(?:launch_server|__main__|cli/\w+)\.py|bin/sglang|<string>|<frozen runpy>)\"")
_LONGEST = 400
_MOST = 100


@dataclass
class Raised:
    """One exception: who printed it, through which code it came, and its lines (the first is the exception's own).

    ``fatal``: its process ends by it (SGLang said that a manager *hit an exception*); ``caught``: somebody has logged
    it with words of his own, and may have gone on. ``after`` is the exception in whose handling it was raised.
    ``phase`` is the printer's phase at that moment.
    """

    header: str
    rank: str
    fatal: bool
    phase: str
    opened: Piece
    frames: list[str] = field(default_factory=list)
    lines: list[Piece] = field(default_factory=list)
    after: Raised | None = None
    harmless: bool = False
    caught: bool = False

    @property
    def through(self) -> str:
        return "\n".join(self.frames)

    @property
    def uncaught(self) -> bool:
        """Whether it went through the whole of a program: whoever catches one sees the frames below his own only."""
        return bool(self.frames) and bool(_OUTERMOST.search(self.frames[0]))


def _is_class(name: str) -> bool:
    """Whether it may be an exception's name: a compiler's (``ninja:``) and a level's (``FAILED:``) are none."""
    last = name.rpartition(".")[2]
    return name not in _NOT_EXCEPTION and not last.isupper() and (last[:1].isupper() or last != name)


class Tracebacks:
    """Collects exceptions from pieces, in order."""

    def __init__(self) -> None:
        self.raised: list[Raised] = []
        self._open: list[Raised] = []
        self._last: Raised | None = None
        # those that may go on, and those that do
        self._ended: list[Raised] = []
        self._chains: list[Raised] = []
        self._before = ""
        self._told = False

    @property
    def unfinished(self) -> Raised | None:
        """The first of those that end a process and whose own line has not come."""
        return next((raised for raised in self._open if raised.fatal), None)

    def take(self, piece: Piece, phase: str, is_bar: bool) -> bool:
        """Look at one piece; true when it is part of a traceback."""
        message = piece.message
        if OPENS in message and not message.startswith("server_args="):
            self._begin(piece, phase)
            return True
        if piece.record or is_bar or (piece.rank and message.startswith("[")):
            if piece.record:
                self._last = None
                self._ended.clear()
                self._before, self._told = message, not _SERVERS.match(message)
            return False
        if _CHAINED.search(message):
            if self._ended:
                self._chains.append(self._ended.pop())
            self._last = None
            return True
        if self._open:
            return self._inside(piece)
        return self._continues(piece)

    def forgive(self, rank: str) -> None:
        """Whoever raised the latest exception goes on: it is tried again."""
        latest = self.raised[-1] if self.raised else None
        if latest is not None and latest.rank in ("", rank) and not latest.fatal and not latest.uncaught:
            latest.harmless = True

    def _begin(self, piece: Piece, phase: str) -> None:
        header, dummy, dummy2 = piece.message.partition(OPENS)
        owner = _OWNER.search(header)
        if self._chains and not owner:  # of several ranks, each goes on in its turn
            previous = self._chains.pop(0)
            raised = Raised(previous.header, previous.rank, previous.fatal, previous.phase, piece, after=previous)
            raised.harmless, raised.caught = previous.harmless, previous.caught
        else:
            said = header.strip() or self._before
            raised = Raised(said, piece.rank, bool(owner), phase, piece)
            raised.harmless = bool(_HARMLESS.search(said)) and not owner
            # in the record itself, or below it, as Python's logging puts it
            told = bool(header.strip()) and not _SERVERS.match(header) if piece.record else self._told
            raised.caught = told and not owner
        self._open.append(raised)

    def _inside(self, piece: Piece) -> bool:
        message = piece.message
        if message[:1] in (" ", "\t") or not message:
            for raised in self._open:
                if message and len(raised.frames) < _LONGEST:
                    raised.frames.append(message)
            return True
        match = _EXCEPTION.match(message)
        if not match or not _is_class(match["name"]):
            # of several processes that write at once, the one whose exception has come goes on with its message
            return self._continues(piece)
        raised = self._whose(message)
        self._open.remove(raised)
        raised.lines.append(piece)
        self._keep(raised)
        self._last = raised
        self._ended = [*self._ended[-8:], raised]
        return True

    def _whose(self, message: str) -> Raised:
        """The open one that an exception belongs to: whose rank it names, or the first."""
        named = _NAMED.search(message) if len(self._open) > 1 else None
        if named is not None:
            owner = re.compile(rf"\bTP{named[1] or named[2]}\b")
            return next((raised for raised in self._open if owner.search(raised.rank)), self._open[0])
        return self._open[0]

    def _continues(self, piece: Piece) -> bool:
        if _OTHERS.match(piece.message):
            self._last = None
            self._ended.clear()
        if self._last is None:
            if piece.message and not _CUDA_TAIL.match(piece.message):
                self._before, self._told = piece.message, False
            return False
        if len(self._last.lines) < _LONGEST:
            self._last.lines.append(piece)
        return True

    def _keep(self, raised: Raised) -> None:
        self.raised.append(raised)
        survivable = [known for known in self.raised if not known.fatal]
        if len(survivable) > _MOST:
            self.raised.remove(survivable[0])
