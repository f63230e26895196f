# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the log of one start tells: phases by rank, progress, exceptions, health, requests to stop.

A reader is fed with bytes as they arrive; its story never decides anything, ``verdict`` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import milestones as ms
from . import signatures as sig
from .lines import Bar, Piece, Splitter, progress_bar, torch_stamp
from .ranks import of_world
from .signature import Signature
from .tracebacks import Raised, Tracebacks

_ARGUMENT = r"\b{0}'?[=:] ?(?P<value>'(?:[^'\\]|\\.)*'|[^,)}}]+)"
_ARGUMENTS = {
    name: re.compile(_ARGUMENT.format(name))
    for name in (
        "model_path",
        "tp_size",
        "dp_size",
        "pp_size",
        "nnodes",
        "node_rank",
        "port",
        "speculative_algorithm",
        "speculative_draft_model_path",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
    )
}
_TORCH_RANK = re.compile(r"rank(\d+)")
_RECENT = 400


@dataclass
class Reached:
    """One rank in one phase: when it began and ended (log time, where it was printed) and on which lines."""

    begin: Piece | None = None
    end: Piece | None = None


@dataclass(frozen=True)
class Hit:
    """A line signature that matched."""

    signature: Signature
    piece: Piece
    facts: dict[str, str]
    phase: str


@dataclass
class Story:
    """The facts of one start, in the order of its log."""

    ranks: dict[str, dict[str, Reached]] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    hits: list[Hit] = field(default_factory=list)
    explanations: list[tuple[Hit, frozenset[str]]] = field(default_factory=list)
    unhealthy: list[Piece] = field(default_factory=list)
    stop: Piece | None = None
    forced: Piece | None = None
    sigquit: Piece | None = None
    begun: Piece | None = None
    ready: Piece | None = None
    #: The last line that says that a server ends.
    over: int = 0
    last: Piece | None = None
    last_stamp: float | None = None
    alive_at: float | None = None
    drawn: Bar | None = None
    bar_piece: Piece | None = None
    jit: Piece | None = None
    registered_none: Piece | None = None
    ignored: list[tuple[Piece, str, str]] = field(default_factory=list)
    fallback: Hit | None = None
    connected: set[int] = field(default_factory=set)
    available: dict[str, float] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    overridden: dict[str, str] | None = None
    recent: list[Piece] = field(default_factory=list)
    #: Tokens that the last batch left to be prefilled.
    pending: int = 0
    #: The lines of the last milestone and of the last batch.
    moved: int = 0
    worked: int = 0
    #: The server said that its own first request was refused, and nothing has been served since.
    refused: Piece | None = None

    def __post_init__(self) -> None:
        self._tracebacks = Tracebacks()
        self._loads: dict[str, int] = {}
        self._pools: dict[str, int] = {}
        self._phase: dict[str, str] = {}
        self._bar_began: float | None = None
        self._beat = ""
        self._quoting = False

    @property
    def unfinished(self) -> Raised | None:
        """An exception that ends a process, as far as it has been written: its own line is missing."""
        return self._tracebacks.unfinished

    @property
    def raised(self) -> list[Raised]:
        return self._tracebacks.raised

    def phase_of(self, rank: str) -> str:
        """The phase of a rank; for a process without one, that of the whole start.

        After the weights only the first rank tells where it is: the others are there too.
        """
        rank = self.label(rank)
        own = self._phase.get(rank) or self._phase.get("") or self.phase
        if rank and ms.PHASES.index(own) >= ms.PHASES.index(ms.KV_POOL):
            return max(own, self.phase, key=ms.PHASES.index)
        return own

    @property
    def phase(self) -> str:
        """The phase of the whole start: the main process's, once it is up; before, that of the rank that tells most."""
        main = self._phase.get("", ms.IMPORT)
        ranks = [rank for rank in self._phase if rank]
        if not ranks or ms.PHASES.index(main) >= ms.PHASES.index(ms.HTTP_BIND):
            return main
        return self._phase[max(ranks, key=lambda rank: len(self.ranks[rank]))]

    def label(self, rank: str) -> str:
        """SGLang's name of a rank, where torch has said its number (``rank3``)."""
        number = _TORCH_RANK.fullmatch(rank)
        return (of_world(int(number[1]), self.ranks, self.arguments) if number else "") or rank

    def _phase_at(self, piece: Piece) -> str:
        """The phase that a line was printed in; a line without a head may be anybody's."""
        return self.phase_of(piece.rank) if piece.record or piece.rank else self.phase

    def take(self, piece: Piece) -> None:
        """The next piece, complete."""
        if self._quoted(piece):
            self._clock(piece)
            return
        if piece.message:
            self.last = piece
            self.recent.append(piece)
            del self.recent[:-_RECENT]
        moving = self.progress(piece)
        self._clock(piece)
        if self._tracebacks.take(piece, self.phase_of(piece.rank), moving) or moving or not piece.message:
            self._look_for_explanations(piece)
            return
        if sig.BATCH.match(piece.message):
            pending = sig.PENDING.search(piece.message)
            self.pending = int(pending["tokens"]) if pending else 0
            self.worked = piece.number
            self._served()
            return
        self._milestone(piece)
        self._remark(piece)

    def _quoted(self, piece: Piece) -> bool:
        """Whether it belongs to a request that was logged: users send what they like, line breaks included.

        Where it goes over several lines, its end cannot be told from what it holds: the next record ends it.
        """
        if piece.record:
            request = bool(sig.REQUEST.match(piece.message))
            self._quoting = request and not piece.message.endswith(sig.REQUEST_ENDS)
            return request
        return self._quoting and not piece.rank

    def _clock(self, piece: Piece) -> None:
        stamp = piece.stamp
        if stamp is None and self.last_stamp is not None:
            stamp = torch_stamp(piece.message, self.last_stamp)
        if stamp is not None:
            self.last_stamp = stamp
            self.alive_at = max(self.alive_at or stamp, stamp)

    def progress(self, piece: Piece) -> bool:
        """Note a progress bar, complete or still being drawn; true if the piece is one."""
        found = progress_bar(piece.message) if not piece.record else None
        if found is None:
            return False
        if self.drawn is None or found.total != self.drawn.total or found.elapsed < self.drawn.elapsed:
            self._bar_began = self.last_stamp
        self.drawn, self.bar_piece = found, piece
        if self._bar_began is not None:
            self.alive_at = max(self.alive_at or 0.0, self._bar_began + found.elapsed)
        self.unhealthy.clear()
        return True

    # -- milestones ----------------------------------------------------------------------------------------------
    def _milestone(self, piece: Piece) -> None:
        if not piece.record or not ms.MAYBE.match(piece.message):
            return
        for milestone in ms.MILESTONES:
            match = milestone.pattern.match(piece.message)
            if match:
                self._reach(milestone, match, piece)
                return

    def _reach(self, milestone: ms.Milestone, match: re.Match[str], piece: Piece) -> None:
        self.moved = piece.number
        rank, phase = piece.rank, self._refine(milestone, match, piece)
        reached = self.ranks.setdefault(rank, {}).setdefault(phase, Reached())
        if milestone.edge == ms.BEGIN:
            reached.begin = reached.begin or piece
            self._phase[rank] = phase
        else:
            reached.end = piece
            if phase == ms.DIST_INIT:
                self._phase[rank] = ms.WEIGHTS
            elif phase in (ms.WEIGHTS, ms.WEIGHTS_DRAFT):
                self._phase[rank] = ms.KV_POOL_DRAFT if self._pools.get(rank) else ms.KV_POOL
        if phase == ms.ARGS:
            self.begun = self.begun or piece
            self._read_arguments(piece.message)
        elif phase == ms.SERVING:
            self.ready = self.ready or piece
        if phase != ms.CAPTURE:
            self.registered_none = None
        self.jit = None
        self._memory(piece, phase, milestone.edge)

    def _refine(self, milestone: ms.Milestone, match: re.Match[str], piece: Piece) -> str:
        """Target or draft: by the count of loads and pools, by the words of a capture."""
        rank, phase = piece.rank, milestone.phase
        if phase == ms.WEIGHTS:
            if milestone.edge == ms.BEGIN:
                self._loads[rank] = self._loads.get(rank, 0) + 1
            return ms.WEIGHTS_DRAFT if self._loads.get(rank, 0) > 1 else ms.WEIGHTS
        if phase == ms.KV_POOL:
            pools = self._pools.get(rank, 0)
            if milestone.edge == ms.END:
                self._pools[rank] = pools + 1
            return ms.KV_POOL_DRAFT if pools else ms.KV_POOL
        if phase == ms.CAPTURE and "draft" in match["what"].lower():
            return ms.CAPTURE_DRAFT
        if phase == ms.DIST_INIT and self._loads.get(rank):
            return self._phase.get(rank, phase)  # the draft worker goes through it again, in no time
        return phase

    def _memory(self, piece: Piece, phase: str, edge: str) -> None:
        if phase == ms.WEIGHTS and edge == ms.BEGIN:
            match = sig.AVAILABLE.search(piece.message)
            if match:
                self.available[piece.rank] = float(match["gb"])
        if edge == ms.END and phase in (ms.WEIGHTS, ms.WEIGHTS_DRAFT):
            match = sig.LOADED_TYPE.search(piece.message)
            if match and match["type"] not in self.types:
                self.types.append(match["type"])

    def _read_arguments(self, message: str) -> None:
        for name, pattern in _ARGUMENTS.items():
            match = pattern.search(message)
            if match:
                self.arguments[name] = match["value"].strip("'")

    # -- everything else -----------------------------------------------------------------------------------------
    def _remark(self, piece: Piece) -> None:
        message = piece.message
        if message.startswith("server_args="):
            return
        if sig.ENDED.search(message):
            self.over = piece.number
        self._note_ends(piece)
        self._note_start(piece)
        self._look_for_explanations(piece)
        for signature in sig.LINES:
            match = signature.pattern.search(message)
            if match:
                facts = {key: value for key, value in match.groupdict().items() if value is not None}
                self.hits.append(Hit(signature, piece, facts, self._phase_at(piece)))
                del self.hits[200:]

    def _note_ends(self, piece: Piece) -> None:
        message = piece.message
        if sig.SIGQUIT.search(message):
            self.sigquit = self.sigquit or piece
        if sig.SIGTERM.search(message):
            self.stop = self.stop or piece
        if sig.FORCED.search(message):
            self.forced = piece
        unhealthy = sig.UNHEALTHY.search(message)
        if unhealthy:
            if self._beat != (unhealthy["beat"] or ""):
                self.unhealthy.clear()
            self._beat = unhealthy["beat"] or ""
            self.unhealthy.append(piece)
        elif sig.ANSWERED.match(message):
            self._served()
        if sig.REFUSED.match(message):
            self.refused = piece

    def _served(self) -> None:
        self.unhealthy.clear()
        self.refused = None

    def _note_start(self, piece: Piece) -> None:
        message = piece.message
        ignored = sig.MODULE_IGNORED.search(message)
        if ignored:
            self.ignored.append((piece, ignored["module"], ignored["why"]))
        fallback = sig.FALLBACK.match(message)
        if fallback:
            self.fallback = Hit(sig.FALLBACK_USED, piece, fallback.groupdict(), self.phase_of(piece.rank))
        if sig.RETRIED.match(message):
            self._tracebacks.forgive(piece.rank)
        if sig.JIT_DONE.search(message):
            self.jit = None
        elif sig.JIT.search(message):
            self.jit = piece
        if sig.REGISTERED_NONE.search(message) and self.registered_none is None:
            unfinished = self.drawn is not None and self.drawn.done < self.drawn.total
            self.registered_none = piece if unfinished else None
        gloo = sig.GLOO_CONNECTED.match(message)
        if gloo:
            self.connected.add(int(gloo["rank"]))
        overridden = sig.DRAFT_OVERRIDDEN.search(message)
        if overridden:
            self.overridden = overridden.groupdict()

    def _look_for_explanations(self, piece: Piece) -> None:
        for signature, explained in sig.EXPLANATIONS:
            match = signature.pattern.search(piece.message)
            if match and len(self.explanations) < 200:
                facts = {key: value for key, value in match.groupdict().items() if value is not None}
                hit = Hit(signature, piece, facts, self.phase_of(piece.rank))
                self.explanations.append((hit, explained))


class Reader:
    """Feeds a story with the bytes of a log, and begins a new one where the file holds an earlier start too.

    ``began_at``: records before this moment (log time) belong to earlier starts. Without it, a second
    ``server_args=``, when the ranks of a first one have come up or a server has ended, is taken for a new start.
    """

    def __init__(self, began_at: float | None = None) -> None:
        self.story = Story(alive_at=began_at)
        self.bytes_seen = 0
        self._began_at = began_at
        self._recorded = 0
        self._splitter = Splitter()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.bytes_seen += len(data)
        for piece in self._splitter.feed(data):
            self._take(piece)
        for piece in self._splitter.pending():
            self.story.progress(piece)

    def finish(self) -> None:
        """Nothing more comes: what has no line end is complete too."""
        for piece in self._splitter.finish():
            self._take(piece)

    def _take(self, piece: Piece) -> None:
        if self._began_at is not None and piece.stamp is not None and piece.stamp < self._began_at:
            # an earlier start's, and so is all that stands before it
            self.story = Story(alive_at=self._began_at)
            return
        if self._starts_anew(piece):
            # what Python has warned of since the earlier start's end belongs to this one
            end = self.story.over or self._recorded
            since = [entry for entry in self.story.explanations if entry[0].piece.number > end]
            self.story = Story(explanations=since)
        self.story.take(piece)
        if piece.record:
            self._recorded = piece.number

    def _starts_anew(self, piece: Piece) -> bool:
        if self._began_at is not None:
            if piece.stamp is None:
                return False
            self._began_at = None
            return True
        first_words = piece.record and not piece.rank and piece.message.startswith("server_args=")
        went_on = self.story.over or any(phase != ms.ARGS for reached in self.story.ranks.values() for phase in reached)
        return first_words and bool(went_on)
