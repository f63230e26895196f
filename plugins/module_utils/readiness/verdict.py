# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""From what is known of a start to a verdict. Pure: the same story and the same observation give the same answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from . import causes
from . import milestones as ms
from . import signatures as sig
from .categories import CATEGORIES
from .lines import Piece
from .ranks import in_world, size
from .story import Story

READY = "ready"
FAILED = "failed"
STALLED = "stalled"
STARTING = "still_starting"
STOPPED = "stopped"

# Health failures in a row, with no batch between them, that make a silent scheduler a dead one (each stands for 20 s).
# A scheduler in the middle of a long prompt, or that compiles, gets as long as SGLang's own watchdog gives it.
_UNHEALTHY = 2
_UNHEALTHY_BUSY = 15
# So many times as long as a step of a bar has taken on average, the next one may take.
_STEPS = 3
_LONGEST_LINE = 4000


@dataclass(frozen=True)
class Observation:
    """What is known beside the log.

    ``unit``: ``active``, ``activating``, ``activating:auto-restart``, ``inactive``, ``dead:exit=N``,
    ``dead:signal=NAME``, or empty where it is not known (its end is read from the log then). ``now``: the moment of
    looking, on the log's clock. ``silent_s``: seconds without any evidence of progress, where the host was watched
    (else it is read from the log). ``stop_asked``: a stop was asked for, by our own record. ``dead_children``: worker
    processes that ended under a living main process, with how (``signal=KILL``); ``outlives``: this release goes on
    without them (up to 0.5.9). ``workers_live``: the workers were looked at, and none has ended.
    ``oom_kills``: see ``causes.find``.
    """

    unit: str = ""
    now: float | None = None
    silent_s: float | None = None
    patience: dict[str, float] = field(default_factory=dict)
    stop_asked: bool = False
    dead_children: tuple[tuple[str, str], ...] = ()
    outlives: bool = True
    workers_live: bool = False
    oom_kills: int | None = None


@dataclass(frozen=True)
class State:
    """The verdict and its reasons; ``to_dict`` is what the modules return."""

    verdict: str
    category: str
    phase: str
    cause: Piece | None = None
    rank: str = ""
    hint: str = ""
    findings: tuple[str, ...] = ()
    excerpt: tuple[str, ...] = ()
    was_ready: bool = False
    matrix: dict[str, dict[str, str]] = field(default_factory=dict)
    progress: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        line = None if self.cause is None else {"line": self.cause.text[:_LONGEST_LINE], "number": self.cause.number}
        return {
            "verdict": self.verdict,
            "category": self.category,
            "cause": line,
            "rank": self.rank or None,
            "phase": self.phase,
            "hint": self.hint,
            "findings": list(self.findings),
            "excerpt": list(self.excerpt),
            "was_ready": self.was_ready,
            "ranks": self.matrix,
            "progress": self.progress,
        }


def judge(story: Story, seen: Observation) -> State:
    """The verdict on what is known."""
    dead = _dead(seen.unit) if seen.unit else causes.ended(story)
    stop = _stopped(story, seen, dead)
    if stop is not None:
        return stop
    broken = causes.decisive(story) or seen.dead_children
    if dead or (broken and not _stopping(story, seen)):
        return _failed(story, seen)
    if _zombie_like(story, seen):
        return _zombie(story)
    if story.ready is not None and story.refused is not None:
        return _refused(story, story.refused)
    if story.ready is not None:
        return _state(story, READY, "none", ms.SERVING, story.ready)
    return _stalled(story, seen) or _starting(story)


def _dead(unit: str) -> bool:
    return unit.startswith("dead") or unit in ("activating:auto-restart", "inactive", "failed")


# -- ended -----------------------------------------------------------------------------------------------------------
def _stopped(story: Story, seen: Observation, dead: bool) -> State | None:
    """An end that was asked for. A failure before the request stays a failure; what a stop breaks does not count."""
    if not dead:
        return None
    end = re.sub(r"^dead:", "", seen.unit)
    stop = _request(story)
    asked = stop is not None or seen.stop_asked or end in ("exit=0", "signal=TERM", "signal=INT")
    if not asked or _zombie_like(story, seen) or _broken_before(story, seen):
        return None
    line = stop or story.last
    return _state(story, STOPPED, "stopped_by_request", story.phase, line)


def _request(story: Story) -> Piece | None:
    """The line that asks for the stop; none where it is of an earlier start and another one died without a word."""
    return story.stop if story.stop is not None and story.stop.number > causes.latest_start(story) else None


def _stopping(story: Story, seen: Observation) -> bool:
    """A stop is under way: its workers end before it does, and what they break does not count."""
    return (_request(story) is not None or seen.stop_asked) and not _broken_before(story, seen)


def _broken_before(story: Story, seen: Observation) -> bool:
    """Whether it had failed when the stop was asked for."""
    cause = causes.find(story, seen.oom_kills) if causes.decisive(story) else None
    stop = _request(story)
    return cause is not None and (stop is None or cause.piece.number < stop.number)


def _failed(story: Story, seen: Observation) -> State:
    cause = causes.find(story, seen.oom_kills)
    if cause is None and _zombie_like(story, seen):
        return _zombie(story)
    if cause is None:
        return _nameless(story, seen)
    findings = list(_findings(story))
    hint = cause.advice or CATEGORIES[cause.category].advice
    if cause.category == "kv_budget_too_small" and "minimum" in cause.facts:
        hint = f"Raise mem_fraction_static above {cause.facts['minimum']}: the release itself has worked it out."
    if cause.category == "model_module_import_broken":
        findings.append("the import error of this module is no noise: it serves the model's own architecture")
    excerpt = tuple(piece.text[:400] for piece in cause.block[:20])
    state = _state(story, FAILED, cause.category, cause.phase, cause.piece, cause.rank, hint, findings, excerpt)
    # without its port it has never served, whatever it said
    return replace(state, was_ready=state.was_ready and cause.phase != ms.HTTP_BIND)


def _nameless(story: Story, seen: Observation) -> State:
    """The log names nothing: the unit's own end and the kernel's counter are all there is."""
    ends = {how for dummy, how in seen.dead_children}
    category = "unknown"
    if seen.oom_kills:
        category = "child_sigkill_host_oom"
    elif seen.dead_children and story.ready is not None and seen.outlives:
        category = "child_sigkill_zombie_service"
    elif story.unfinished is None and (
        "signal=KILL" in ends or (seen.unit == "dead:signal=KILL" and story.sigquit is None)
    ):
        category = "child_sigkill"
    elif ends:
        category = "child_crashed"
    line = story.last
    if category == "unknown":
        line = story.unfinished.opened if story.unfinished is not None else _complaint(story)
    if seen.dead_children and story.unhealthy:
        line = story.unhealthy[0]
    findings = _findings(story)
    if seen.dead_children:
        named = ", ".join(f"{name} {how}".strip() for name, how in seen.dead_children)
        findings += ("ended under a living main process: " + named,)
    hint = CATEGORIES[category].advice
    excerpt = tuple(piece.text[:400] for piece in story.recent[-20:])
    rank = story.unfinished.rank if story.unfinished is not None and category == "unknown" else ""
    return _state(story, FAILED, category, story.phase, line, rank, hint, findings, excerpt)


def _complaint(story: Story) -> Piece | None:
    """The last line that complains of something, or else the last one."""
    for piece in reversed(story.recent):
        noise = piece.message.startswith("server_args=") or sig.NO_COMPLAINT.search(piece.message)
        if not noise and sig.COMPLAINT.search(piece.message):
            return piece
    return story.last


def _zombie_like(story: Story, seen: Observation) -> bool:
    """Health failed again and again at the same heartbeat, with nothing done in between.

    A batch is logged when it is done: of a first request that compiles for a minute, a live worker is all that is seen.
    """
    busy = story.pending > 0 or story.jit is not None or seen.workers_live
    enough = _UNHEALTHY_BUSY if busy else _UNHEALTHY
    if story.forced is not None and not busy:
        enough = 1  # SGLang itself has given its scheduler up
    return story.ready is not None and len(story.unhealthy) >= enough


def _zombie(story: Story) -> State:
    name = "child_sigkill_zombie_service"
    line = story.unhealthy[0] if story.unhealthy else story.forced
    return _state(story, FAILED, name, ms.SERVING, line, "", CATEGORIES[name].advice)


def _refused(story: Story, line: Piece) -> State:
    """It says that it serves, and that its own first request was refused: its health is bad until one succeeds."""
    state = _state(story, FAILED, "warmup_failed", ms.WARMUP, line, "", CATEGORIES["warmup_failed"].advice)
    return replace(state, was_ready=False)


# -- not ended -------------------------------------------------------------------------------------------------------
def _stalled(story: Story, seen: Observation) -> State | None:
    hidden = story.registered_none
    if hidden is not None:
        name = "capture_error_hidden_by_custom_allreduce"
        return _state(story, STALLED, name, story.phase, hidden, hidden.rank, CATEGORIES[name].advice)
    silent = _silent(story, seen)
    phase, rank, line = _laggard(story)
    if silent is None or silent < _patience(story, seen, phase):
        return None
    category = "stalled"
    if story.jit is not None and "Loading JIT ops" in story.jit.message:
        category, line = "flashinfer_jit_lock", story.jit
    elif phase == ms.DIST_INIT:
        category = "dist_init_hang"
    finding = f"no sign of progress for {silent:.0f} s in phase {phase}" + (f" of {rank}" if rank else "")
    hint = CATEGORIES[category].advice
    return _state(story, STALLED, category, phase, line, rank, hint, (*_findings(story), finding))


def _patience(story: Story, seen: Observation, phase: str) -> float:
    """Seconds of silence that this phase is given; a bar that has moved slowly so far may go on so."""
    if phase in seen.patience:
        return seen.patience[phase]
    patience = ms.patience_of(ms.PATIENCE.get(phase, float("inf")), size(story.arguments, "nnodes"))
    drawn = story.drawn
    if drawn is None or not 0 < drawn.done < drawn.total:
        return patience
    return max(patience, _STEPS * drawn.elapsed / drawn.done)


def _silent(story: Story, seen: Observation) -> float | None:
    if seen.silent_s is not None:
        return seen.silent_s
    if seen.now is None or story.alive_at is None:
        return None
    return seen.now - story.alive_at


def _laggard(story: Story) -> tuple[str, str, Piece | None]:
    """The phase that the start hangs in, the rank that holds it up (if one can be named) and its last milestone."""
    ranks = {rank: reached for rank, reached in story.ranks.items() if rank}
    absent = _absent(story, ranks)
    if absent and story.phase == ms.DIST_INIT:
        return ms.DIST_INIT, absent, _moving(story)
    for phase in (ms.DIST_INIT, ms.WEIGHTS, ms.WEIGHTS_DRAFT):
        entered = {rank: reached[phase] for rank, reached in ranks.items() if phase in reached}
        here = {rank: span for rank, span in entered.items() if span.end is None and story.phase_of(rank) == phase}
        if not here:
            continue
        late = _unconnected(story, here) if phase == ms.DIST_INIT else []
        late = late or (list(here) if len(here) < len(entered) else [])
        if late:
            return phase, late[0], here[late[0]].begin
        return phase, "", _moving(story)
    return story.phase, "", _moving(story)


def _absent(story: Story, ranks: Iterable[str]) -> str:
    """The first tensor-parallel rank of this host of which there is no word, where that is the only kind of rank."""
    if any(size(story.arguments, name) > 1 for name in ("dp_size", "pp_size")):
        return ""
    share = size(story.arguments, "tp_size") // size(story.arguments, "nnodes")
    node = size(story.arguments, "node_rank", 0)
    here = range(share * node, share * (node + 1))
    heard = {_tp(rank) for rank in ranks}
    return next((f"TP{number}" for number in here if heard and number not in heard), "")


def _unconnected(story: Story, here: dict[str, Any]) -> list[str]:
    if not story.connected:
        return []
    numbers = {rank: in_world(rank, story.arguments) for rank in here}
    return [rank for rank, number in numbers.items() if number is not None and number not in story.connected]


def _tp(rank: str) -> int | None:
    match = re.search(r"\bTP(\d+)", rank)
    return int(match[1]) if match else None


def _starting(story: Story) -> State:
    phase = story.phase
    category = ms.progress_category(phase)
    if story.jit is not None:
        category = "jit_precompile_deepgemm" if "DeepGEMM" in story.jit.message else "jit_compile"
    return _state(story, STARTING, category, phase, _moving(story))


def _moving(story: Story) -> Piece | None:
    """The line that shows the progress: the bar, when it is the last thing that was printed."""
    drawn, last = story.bar_piece, story.last
    if drawn is not None and (last is None or drawn.number >= last.number):
        return drawn
    return last


# -- the rest --------------------------------------------------------------------------------------------------------
def _findings(story: Story) -> tuple[str, ...]:
    found = []
    if story.overridden:
        draft, target = story.overridden["draft"], story.overridden["target"]
        found.append(
            f"draft_context_overridden: draft trained for {draft} tokens but forced to {target} "
            "(expect low accept length on long prompts)"
        )
    if story.fallback is not None:
        found.append(
            f"transformers_fallback: {story.fallback.facts['architectures']} is not served by SGLang's own "
            "implementation but through Transformers: slower, and without EAGLE-3"
        )
    if story.stop is not None:
        found.append(f"stop_requested: a stop was asked for (line {story.stop.number})")
    if story.unhealthy:
        found.append(
            f"health_check_failed: {len(story.unhealthy)} times in a row, since line {story.unhealthy[0].number}"
        )
    return tuple(found)


def _state(
    story: Story,
    verdict: str,
    category: str,
    phase: str,
    cause: Piece | None,
    rank: str = "",
    hint: str = "",
    findings: tuple[str, ...] | list[str] | None = None,
    excerpt: tuple[str, ...] = (),
) -> State:
    return State(
        verdict,
        category,
        phase,
        cause,
        rank,
        hint,
        tuple(_findings(story) if findings is None else findings),
        excerpt,
        story.ready is not None and verdict != READY and story.ready.number > causes.latest_start(story),
        _matrix(story),
        _bar(story),
    )


def _matrix(story: Story) -> dict[str, dict[str, str]]:
    """Rank by phase: ``begun`` or ``done``."""
    return {
        rank or "main": {phase: "done" if span.end else "begun" for phase, span in reached.items()}
        for rank, reached in story.ranks.items()
    }


def _bar(story: Story) -> dict[str, Any] | None:
    drawn = story.drawn
    if drawn is None or story.ready is not None:
        return None
    return {
        "label": drawn.label,
        "done": drawn.done,
        "total": drawn.total,
        "percent": drawn.percent,
        "eta_s": drawn.left,
    }
