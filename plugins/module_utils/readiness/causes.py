# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The cause of a failure: of all that the log accuses, the one thing that the rest follows from.

The order: the first root exception by rank, or a fatal line; then what SGLang says of a child that a signal ended;
then the exception that ended the main process; and only then what one rank says about another. Within a chain of
exceptions the most specific one is named, and a line before the failure may explain it better than the exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from . import milestones as ms
from . import ranks
from .exceptions import EXCEPTIONS
from .lines import Piece
from .signature import GENERIC, NORMAL, WRAPPER, Signature
from .story import Hit, Story
from .tracebacks import Raised

# How an accusation is told, in the order in which one is believed.
ROOT = 0
MAIN = 1
DEATH = 2
PEER = 3

_UNKNOWN = 10
# A communication error may be the first that is printed and still be another rank's fault.
_GIVES_WAY = frozenset({"nccl_error", "dist_timeout"})
# What is said of the ranks, as against a connection of any kind.
_OF_RANKS = re.compile(r"\brank|closed by peer|ncclRemote", re.IGNORECASE)
# A compiler failed, or is not there.
_BUILDS = frozenset({"jit_build_failed", "flashinfer_jit_no_nvcc"})
_DEATHS = frozenset({"child_exit", "rank_dead", "child_sigkill"})
_SIGKILL = -9
_BINDING = frozenset({"http_port_in_use", "http_bind_failed"})
# Code that runs before a server's arguments are printed, and only after that.
_BEFORE = re.compile(r"prepare_server_args|launch_server\.py\", line \d+, in <module>|<frozen runpy>")
_AFTER = re.compile(r"in run_server|in launch_server\b|_launch_subprocesses|spawn_main|_bootstrap_inner")
_IMPORTS = re.compile(r"in run_server\n +from sglang\S+ import ")
_FOREIGN = re.compile(r"Process \d+ has ([\d.]+) ([GM])iB memory in use")
_CAPACITY = re.compile(r"total capacity of ([\d.]+) GiB")
# The share of a card from which on another process, and not this server, is to blame for a full card; and how much
# less free memory than its peers a rank must have begun with for that.
_FOREIGN_SHARE = 0.05
_LESS_THAN_PEERS = 0.8
_FIGURES = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
# What a class is for, in its name; and what a draft's class or module has in its own.
_PURPOSE = re.compile(r"(?<=[a-z0-9])(?:For(?:CausalLM|ConditionalGeneration)?|LM|Model)")
_DRAFTS = re.compile(r"(?i)eagle3|eagle|mtp|nextn")
# How Python says where a file cannot be parsed.
_DAMAGED = re.compile(r"\(\w+\.py, line \d+\)$")
# deepseek_v2 serves DeepseekV3; qwen does not serve Qwen4.
_ALIKE = 0.8


@dataclass(frozen=True)
class Cause:
    """What went wrong, where it is said, and by whom."""

    category: str
    piece: Piece
    told: int = ROOT
    priority: int = _UNKNOWN
    rank: str = ""
    phase: str = ""
    advice: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    block: tuple[Piece, ...] = ()


def find(story: Story, oom_kills: int | None = None) -> Cause | None:
    """The cause that the log names, or ``None`` where it names none.

    ``oom_kills``: how many of the unit's processes the kernel ended for memory during this start, where that is known.
    """
    accusations = [*_accusations(story), *_stand_in(story)]
    best = _root(accusations) or _of_main(story, accusations) or _death(accusations) or _first(accusations, PEER)
    if best is None:
        return None
    best = _of_label(story, _explained(story, best))
    settle = _SETTLERS.get(best.category)
    return _placed(story, settle(story, best, oom_kills) if settle else best)


def decisive(story: Story) -> bool:
    """Whether the server ends by what its log says, whatever the process does just now."""
    # what a shell says of a process that it ran may be a compiler's end, or a text that a user sent
    accusations = [cause for cause in (*_accusations(story), *_stand_in(story)) if cause.category != "child_sigkill"]
    return _root(accusations) is not None or _death(accusations) is not None


def ended(story: Story) -> bool:
    """Whether the log itself says that the server is no more, where nobody else does: its program did not catch what
    was raised last, or a child's death ends it."""
    last = [raised for raised in story.raised if raised.uncaught and raised.opened.number > story.moved]
    return story.sigquit is not None or bool(last)


# -- which one -----------------------------------------------------------------------------------------------------
def _root(accusations: list[Cause]) -> Cause | None:
    """The earliest of those that no other one explains."""
    roots = [cause for cause in accusations if cause.told == ROOT]
    first = min(roots, key=lambda cause: (_explicable(cause), cause.piece.number), default=None)
    if first is None or first.category != "jit_build_failed" or first.priority > NORMAL:
        return first
    # the ranks build the same: where their lines are mixed, the compiler's may stand in another one's message
    return next((cause for cause in roots if cause.category in _BUILDS and cause.priority > NORMAL), first)


def _explicable(cause: Cause) -> int:
    """How well another cause would explain this one: an abort says least, of an exception in C++ that nobody caught."""
    if cause.category == "child_crashed" and cause.priority <= WRAPPER:
        return 2
    return 1 if cause.category in _GIVES_WAY else 0


def _of_main(story: Story, accusations: list[Cause]) -> Cause | None:
    """The last exception outside of SGLang's managers, unless a signal ended a child: then it is a consequence.

    Where several processes end by the same one, the first of them.
    """
    if any(cause.told == DEATH and int(cause.facts.get("code", "0")) < 0 for cause in accusations):
        return None
    since = story.ready.number if story.ready else 0
    mains = [cause for cause in accusations if cause.told == MAIN and cause.piece.number > since]
    last = max(mains, key=lambda cause: cause.piece.number, default=None)
    return _earliest([cause for cause in mains if last is not None and cause.piece.message == last.piece.message])


def _death(accusations: list[Cause]) -> Cause | None:
    deaths = sorted((cause for cause in accusations if cause.told == DEATH), key=lambda cause: cause.piece.number)
    if not deaths:
        return None
    best = next((cause for cause in deaths if "code" in cause.facts), deaths[0])
    known: dict[str, str] = {}
    for cause in deaths:
        known = {**cause.facts, **known}
    return replace(best, facts={**known, **best.facts})


def _first(accusations: list[Cause], told: int) -> Cause | None:
    return _earliest([cause for cause in accusations if cause.told == told])


def _earliest(causes: list[Cause]) -> Cause | None:
    return min(causes, key=lambda cause: cause.piece.number, default=None)


# -- what is said --------------------------------------------------------------------------------------------------
def _accusations(story: Story) -> list[Cause]:
    found = [_of_hit(hit) for hit in story.hits] + [_of_chain(raised) for raised in _tails(story)]
    begin = latest_start(story)
    return [cause for cause in found if cause.piece.number >= begin]


def _tails(story: Story) -> list[Raised]:
    """The last exception of each chain."""
    handled = {id(raised.after) for raised in story.raised if raised.after is not None}
    return [raised for raised in story.raised if id(raised) not in handled and not _survived(story, raised)]


def _survived(story: Story, raised: Raised) -> bool:
    """Known to be harmless; or caught and logged by somebody, and the start, or the work, went on."""
    went_on = max(story.moved, story.worked)
    return raised.harmless or (raised.caught and not raised.uncaught and raised.opened.number < went_on)


def _stand_in(story: Story) -> list[Cause]:
    """The model is served by Transformers only because its own module does not import: that is no success."""
    if story.fallback is None or _broken_module(story, story.fallback.facts["architectures"]) is None:
        return []
    return [_of_hit(story.fallback)]


def latest_start(story: Story) -> int:
    """Where a start begins that died before it said a word, in a log that holds an earlier one: its line, or 0.

    What fails while the arguments are read, after the arguments of a start were printed, belongs to another start.
    """
    if story.begun is None or not story.over:
        return 0
    early = [raised.opened.number for raised in _tails(story) if _early(raised.through)]
    early += [hit.piece.number for hit in story.hits if hit.signature.category == "unknown_option"]
    return max((number for number in early if number > story.begun.number), default=0)


def _early(through: str) -> bool:
    """Whether this code runs before a server has printed its arguments."""
    return bool(_BEFORE.search(through) and not _AFTER.search(through)) or bool(_IMPORTS.search(through))


def _of_hit(hit: Hit) -> Cause:
    signature = hit.signature
    return Cause(
        signature.category,
        hit.piece,
        DEATH if signature.category in _DEATHS else ROOT,
        signature.priority,
        hit.piece.rank,
        signature.phase or hit.phase,
        signature.advice.format(**hit.facts),
        hit.facts,
        (hit.piece,),
    )


def _of_chain(tail: Raised) -> Cause:
    """The most specific exception of a chain; of equals, the first that was raised."""
    members: list[Cause] = []
    raised: Raised | None = tail
    while raised is not None:
        members.insert(0, _of_exception(raised))
        raised = raised.after
    return max(members, key=lambda cause: cause.priority)


def _of_exception(raised: Raised) -> Cause:
    through, best, found = raised.through, None, None
    peer = False
    for signature in EXCEPTIONS:
        if signature.frames and not signature.frames.search(through):
            continue
        if signature.header and not signature.header.search(raised.header):
            continue
        for piece in raised.lines:
            match = signature.pattern.search(piece.message)
            if match:
                peer = peer or signature.category == "peer"
                if best is None or signature.priority > best[0].priority:
                    best, found = (signature, piece), match
                break
    block = tuple(raised.lines)
    if best is None or found is None:
        told = ROOT if raised.fatal or _warming(raised) else MAIN
        return Cause("unknown", raised.lines[0], told, _UNKNOWN, raised.rank, _phase(raised), block=block)
    signature, piece = best
    facts = {key: value for key, value in found.groupdict().items() if value is not None}
    advice = signature.advice.format(**facts)
    phase = signature.phase or _phase(raised)
    told = _told(raised, signature, peer)
    return Cause(signature.category, piece, told, signature.priority, raised.rank, phase, advice, facts, block)


def _told(raised: Raised, signature: Signature, peer: bool) -> int:
    if signature.category in _DEATHS:
        return DEATH
    if peer and signature.priority <= GENERIC:
        return PEER
    return ROOT if raised.fatal or _warming(raised) else MAIN


def _phase(raised: Raised) -> str:
    return ms.ARGS if raised.phase == ms.IMPORT and "in prepare_server_args" in raised.through else raised.phase


def _warming(raised: Raised) -> bool:
    return "Initialization failed. warmup error" in raised.header


def _explained(story: Story, cause: Cause) -> Cause:
    """A line before the failure that names its cause better (a driver's warning before "No accelerator")."""
    for hit, explained in story.explanations:
        if cause.category in explained and hit.piece.number < cause.piece.number:
            return replace(_of_hit(hit), told=cause.told, phase=cause.phase, rank=cause.rank, block=cause.block)
    return cause


def _of_label(story: Story, cause: Cause) -> Cause:
    """With the name that SGLang gives the rank, where torch has said its number."""
    return replace(cause, rank=story.label(cause.rank))


def _placed(story: Story, cause: Cause) -> Cause:
    """The phase in which it happened; a main process that waits for its ranks is in theirs."""
    if latest_start(story):  # which has said nothing yet: what the log tells of phases is the earlier one's
        return replace(cause, phase=ms.IMPORT)
    if cause.category in _BINDING:  # it may say that it serves before it tries, and after it failed
        return replace(cause, phase=ms.HTTP_BIND)
    if story.ready is not None and cause.piece.number > story.ready.number:
        return replace(cause, phase=ms.SERVING)
    if cause.told in (MAIN, DEATH) and story.ranks:
        return replace(cause, phase=story.phase_of(cause.rank) if cause.rank else story.phase)
    return cause


# -- the last word -------------------------------------------------------------------------------------------------
def _settle_exit(story: Story, cause: Cause, oom_kills: int | None) -> Cause:
    code = int(cause.facts.get("code", "0"))
    rank = _rank_named(story, cause)
    if code != _SIGKILL and cause.category != "child_sigkill":
        return replace(cause, category="child_crashed" if code < 0 else "unknown", rank=rank)
    starting = story.ready is None
    host_oom = oom_kills > 0 if oom_kills is not None else starting
    return replace(cause, category="child_sigkill_host_oom" if host_oom else "child_sigkill", rank=rank)


def _rank_named(story: Story, cause: Cause) -> str:
    number = cause.facts.get("rank") or (re.search(r"scheduler_(\d+)", cause.facts.get("who", "")) or [None, None])[1]
    if number is None:
        return cause.rank
    return ranks.started(int(number), story.ranks, story.arguments) or cause.rank


def _settle_peer(story: Story, cause: Cause, dummy: int | None) -> Cause:
    """Nobody has said what happened to the other one; it is where the last of the ranks is."""
    behind = [story.phase_of(rank) for rank in story.ranks if rank]
    phase = min(behind, key=ms.PHASES.index, default=cause.phase)
    known = "dist_timeout" if _OF_RANKS.search(cause.piece.message) else "unknown"
    return replace(cause, category=known, phase=phase)


def _settle_unknown(story: Story, cause: Cause, dummy: int | None) -> Cause:
    """Of EAGLE's three figures one was not given, and the code that works with it, wherever that is, meets nothing."""
    given = [story.arguments.get(name) for name in _FIGURES]
    eagle = re.match("EAGLE|NEXTN", story.arguments.get("speculative_algorithm", ""))
    if eagle and "None" in given and set(given) != {"None"} and "NoneType" in cause.piece.message:
        return replace(cause, category="spec_flags_incomplete")
    return cause


def _settle_oom(story: Story, cause: Cause, dummy: int | None) -> Cause:
    """Whose memory is it? Another process named in the text, or a rank that began with less than its peers."""
    text = cause.piece.message
    foreign = sum(float(size) / (1 if unit == "G" else 1024) for size, unit in _FOREIGN.findall(text))
    capacity = _CAPACITY.search(text)
    named = capacity is not None and foreign > _FOREIGN_SHARE * float(capacity[1])
    others = sorted(free for rank, free in story.available.items() if rank != cause.rank)
    mine = story.available.get(cause.rank)
    alone = mine is not None and bool(others) and mine < _LESS_THAN_PEERS * others[len(others) // 2]
    if not named and not alone:
        return cause
    return replace(cause, category="cuda_oom_foreign_process")


def _settle_architecture(story: Story, cause: Cause, dummy: int | None) -> Cause:
    """A module that failed to import, and that would have served this architecture, is the cause."""
    broken = _broken_module(story, cause.facts.get("architectures", ""))
    if broken is None:
        return cause
    return replace(cause, category="model_module_import_broken", piece=broken, rank=broken.rank)


def _broken_module(story: Story, architectures: str) -> Piece | None:
    """The line about the module whose name is nearest to one of the architectures (``KimiK25ForCausalLM``)."""
    names = re.findall(r"\w+", architectures)
    wanted = [_letters(stem) for name in names for stem in (_PURPOSE.split(name)[0], _PURPOSE.sub("", name))]
    best, score = None, _ALIKE
    for piece, module, dummy in story.ignored:
        name = _letters(module.rsplit(".", 1)[-1])
        for stem in wanted:
            share = _common(name, stem) / max(len(name), len(stem), 1)
            if share > score:
                best, score = piece, share
    return best or _damaged_draft(story, architectures)


def _damaged_draft(story: Story, architectures: str) -> Piece | None:
    """The line about a draft's module that is no Python any more; its class need not be named as the module is."""
    kinds = {kind.lower() for kind in _DRAFTS.findall(architectures)}
    damaged = (piece for piece, module, why in story.ignored if _DAMAGED.search(why) and _DRAFTS.findall(module))
    return next((piece for piece in damaged if kinds & set(_DRAFTS.findall(piece.message.lower()))), None)


def _settle_draft_path(story: Story, cause: Cause, dummy: int | None) -> Cause:
    draft = story.arguments.get("speculative_draft_model_path", "None")
    if draft in ("None", "", story.arguments.get("model_path")):
        return cause
    return replace(cause, category="eagle3_draft_not_a_draft")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _common(one: str, other: str) -> int:
    length = 0
    for left, right in zip(one, other):
        if left != right:
            break
        length += 1
    return length


_SETTLERS: dict[str, Callable[[Story, Cause, int | None], Cause]] = {
    "child_exit": _settle_exit,
    "peer": _settle_peer,
    "unknown": _settle_unknown,
    "rank_dead": _settle_exit,
    "child_sigkill": _settle_exit,
    "cuda_oom": _settle_oom,
    "architecture_unknown": _settle_architecture,
    "spec_draft_path_missing": _settle_draft_path,
}
