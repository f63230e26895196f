"""What a person reads of a wait that failed: a few lines, with the cause, where it stands and what to do."""

from __future__ import annotations

from ansible_collections.inferops.sglang.plugins.module_utils.readiness import ready
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.unit import Start
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.watch import TIMEOUT, Result
from variants import Wanted, distributed, found, memory, noise

LOG = "/var/log/sglang/kimi/0123456789abcdef0123456789abcdef.log"


def said(wanted: Wanted, verdict: str = "", log: str = LOG) -> list[str]:
    state = found(wanted)
    start = Start("0" * 32, log) if log else None
    result = Result(verdict or state.verdict, state, start, None, [], 70.2, 0.1)
    return ready.message("kimi", result, ready.to_dict(result)).split("\n")


def test_a_failure_in_four_lines() -> None:
    wanted = memory.oom_at_weights_of_one_rank_and_the_others_consequences()
    head, cause, log, advice = said(wanted)
    assert head == "kimi is not ready: failed, cuda_oom, in phase weights of TP3"
    assert cause.startswith("  cause  torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB.")
    assert len(cause) < 320 and cause.endswith(" …")
    assert log == f"  log    {LOG}, line {wanted.line}"
    assert advice.startswith("  advice Lower mem_fraction_static")


def test_a_cause_is_one_line_whatever_it_holds() -> None:
    assert len(said(noise.a_last_word_that_nobody_knows())) == 4


def test_what_is_not_known_takes_no_line() -> None:
    head, *rest = said(distributed.init_that_takes_a_minute_is_no_hang(), verdict=TIMEOUT, log="")
    assert head == "kimi is not ready after 70 s: still in phase dist_init (starting)"
    assert [line.split()[0] for line in rest] == ["cause"]
