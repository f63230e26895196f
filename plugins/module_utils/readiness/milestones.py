# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The phases of a start and the log texts that mark them, by release.

``source`` holds the pieces of the text as they stand in SGLang's own sources (the values between them are filled in
at run time); a test looks for them in every release from ``since`` to ``until``, so that a rename is noticed. Facts
read in the releases 0.5.7 to 0.5.23.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

IMPORT = "import"
ARGS = "args"
DIST_INIT = "dist_init"
WEIGHTS = "weights"
WEIGHTS_DRAFT = "weights_draft"
KV_POOL = "kv_pool"
KV_POOL_DRAFT = "kv_pool_draft"
CAPTURE = "graph_capture"
CAPTURE_DRAFT = "graph_capture_draft"
KV_POOL_HOST = "kv_pool_host"
HTTP_BIND = "http_bind"
WARMUP = "warmup"
SERVING = "serving"

# In this order by default; by release the draft's weights come before or after the target's pool and graphs.
PHASES = (
    IMPORT,
    ARGS,
    DIST_INIT,
    WEIGHTS,
    WEIGHTS_DRAFT,
    KV_POOL,
    KV_POOL_DRAFT,
    CAPTURE,
    CAPTURE_DRAFT,
    KV_POOL_HOST,
    HTTP_BIND,
    WARMUP,
    SERVING,
)

BEGIN = "begin"
END = "end"


@dataclass(frozen=True)
class Milestone:
    """A text that marks the beginning or the end of a phase in the process that prints it."""

    phase: str
    edge: str
    pattern: re.Pattern[str]
    source: tuple[str, ...] = ()
    since: str = ""
    until: str = ""


def patience_of(alone: float, nodes: int) -> float:
    """The seconds of silence that a phase is given where so many hosts start together; ``alone`` is that of one."""
    return max(alone, PATIENCE_WITH_OTHERS) if nodes > 1 else alone


def _m(phase: str, edge: str, pattern: str, *source: str, since: str = "", until: str = "") -> Milestone:
    return Milestone(phase, edge, re.compile(pattern), source, since, until)


# A release may name the pool (of the sliding window, say), and allocate it only after the capture.
_POOL = r"(?:[\w -]+ )?KV Cache (?:is allocated|VA upper bound)"
_OLD_CAPTURE = r"Capture (?P<what>.*?)(?:cuda|cpu|npu) graph "
_CAPTURE = r"Capture (?P<what>.*?)(?:CUDA|CPU|NPU) graph "

# Matched at the beginning of a record's message. Uvicorn's lines have no source of SGLang's.
MILESTONES = (
    _m(ARGS, BEGIN, r"server_args=", "server_args="),
    _m(DIST_INIT, BEGIN, r"Init torch distributed begin", "Init torch distributed begin.", until="0.5.20"),
    _m(DIST_INIT, END, r"Init torch distributed ends", "Init torch distributed ends.", until="0.5.20"),
    _m(DIST_INIT, BEGIN, r"Init parallel begin", "Init parallel begin.", since="0.5.21"),
    _m(DIST_INIT, END, r"Init parallel ends", "Init parallel ends.", since="0.5.21"),
    _m(WEIGHTS, BEGIN, r"Load weight begin", "Load weight begin."),
    _m(WEIGHTS, END, r"Load weight end", "Load weight end."),
    _m(KV_POOL, BEGIN, r"KV Cache is allocated", 'f"KV Cache is allocated. ', until="0.5.16"),
    _m(KV_POOL, BEGIN, _POOL, "{cache_name} ", since="0.5.17"),
    _m(KV_POOL, END, r"Memory pool end", "Memory pool end. "),
    _m(CAPTURE, BEGIN, _OLD_CAPTURE + "begin", "Capture draft cuda graph begin", until="0.5.13"),
    _m(CAPTURE, END, _OLD_CAPTURE + "end", "Capture draft cuda graph end", until="0.5.13"),
    _m(
        CAPTURE,
        BEGIN,
        _CAPTURE + "begin",
        "Capture {capture_name} CUDA graph begin. ",
        "Capture draft decode CUDA graph begin",
        since="0.5.14",
    ),
    _m(CAPTURE, END, _CAPTURE + "end", "Capture {capture_name} CUDA graph end. ", since="0.5.14"),
    _m(HTTP_BIND, BEGIN, r"max_total_num_tokens=\d+, ", "max_total_num_tokens="),
    # The hierarchical cache, after the words above: to pin a terabyte takes minutes, in which nothing is said.
    _m(KV_POOL_HOST, BEGIN, r"Allocating .*\bGB host memory", "GB host memory"),
    _m(HTTP_BIND, BEGIN, r"INFO: +Started server process"),
    _m(WARMUP, BEGIN, r"INFO: +Uvicorn running on "),
    _m(SERVING, BEGIN, r"The server is fired up and ready to roll!", "The server is fired up and ready to roll!"),
    # All that a node other than the first says when its workers are ready: it has no tokenizer, so no API.
    _m(
        SERVING,
        BEGIN,
        r"Dummy health check server started in background thread",
        "Dummy health check server started in background thread",
    ),
)

# The words by which a server says that it serves, for those who look for nothing else.
SERVES = tuple(text for milestone in MILESTONES if milestone.phase == SERVING for text in milestone.source)

# One quick look decides whether a message can be a milestone at all.
MAYBE = re.compile(
    r"server_args=|Init |Load weight |[\w -]{0,40}KV Cache |Memory pool end|Capture |max_total_num_tokens=|Allocating |"
    r"INFO: +(?:Started|Uvicorn)|The server is fired up|Dummy health check server started"
)

# Seconds without any sign of life after which a phase counts as stalled, where only the log is known. Far above what
# was seen in healthy starts; with evidence of the host (bytes read, memory, compilers) the waiting module knows sooner.
PATIENCE = {
    IMPORT: 300,
    ARGS: 300,
    DIST_INIT: 300,
    WEIGHTS: 900,
    WEIGHTS_DRAFT: 900,
    KV_POOL: 600,
    KV_POOL_DRAFT: 600,
    CAPTURE: 600,
    CAPTURE_DRAFT: 600,
    KV_POOL_HOST: 600,
    HTTP_BIND: 300,
    WARMUP: 600,  # as long as SGLang itself waits for its first request; then it says so, and ends
}
# Where several hosts start together, each waits for the slowest, of which nothing is seen here.
PATIENCE_WITH_OTHERS = 900

_NAMES = {
    IMPORT: "starting",
    ARGS: "starting",
    DIST_INIT: "starting",
    WEIGHTS: "loading_weights",
    WEIGHTS_DRAFT: "loading_weights",
    KV_POOL: "allocating_kv_cache",
    KV_POOL_DRAFT: "allocating_kv_cache",
    CAPTURE: "capturing_graphs",
    CAPTURE_DRAFT: "capturing_graphs",
    KV_POOL_HOST: "allocating_kv_cache",
    HTTP_BIND: "warming_up",
    WARMUP: "warming_up",
    SERVING: "none",
}


def progress_category(phase: str) -> str:
    """What a healthy start does in this phase, as a category."""
    return _NAMES[phase]
