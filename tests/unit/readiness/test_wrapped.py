"""The same log as others hand it on: the verdict, its category and the line that says so stay what they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
import variants
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.verdict import State
from test_variants import ALL

_RECORD = re.compile(r"^(\r?)\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)((?: [A-Z]+\d+)*)\] ", re.MULTILINE)
_DETAIL = "2026-11-20T10:00:00.123456789Z "


def before_each_line(head: str) -> Callable[[str], str]:
    return lambda text: "\n".join(head + line if line else line for line in text.split("\n"))


def carriage_returns(text: str) -> str:
    return text.replace("\n", "\r\n")


def coloured_prefixes(text: str) -> str:
    return _RECORD.sub("\\1\x1b[32m[\\2\\3]\x1b[0m ", text)


def coloured_lines(text: str) -> str:
    return "\n".join(f"\x1b[31m{line}\x1b[0m" if line and line[0] != "\r" else line for line in text.split("\n"))


def milliseconds(text: str) -> str:
    return _RECORD.sub(r"\1[\2.123\3] ", text)


def cut_at_the_end(text: str) -> str:
    return text.rstrip("\n")


def an_object_for_each_line(text: str) -> str:
    """As a container's runtime keeps it."""
    return "\n".join(
        json.dumps({"log": line + "\n", "stream": "stderr"}) if line else line for line in text.split("\n")
    )


def alarming_words(text: str) -> str:
    return "/x/hub.py:1: FutureWarning: deprecated: error, failed, Killed, out of memory\n  warnings.warn(\n" + text


SAME = {
    "carriage returns": carriage_returns,
    "coloured prefixes": coloured_prefixes,
    "coloured lines": coloured_lines,
    "milliseconds": milliseconds,
    "cut at the end": cut_at_the_end,
    "alarming words": alarming_words,
    "an object for each line": an_object_for_each_line,
    "journald": before_each_line("Nov 20 10:00:00 gpu-01 sglang-kimi[4711]: "),
    "journald, ISO times": before_each_line("2026-11-20T10:00:00+0000 gpu-01 python[4711]: "),
    "compose": before_each_line("sglang-1  | "),
    "a container's runtime": before_each_line(_DETAIL + "stderr F "),
    "kubectl with times": before_each_line(_DETAIL),
}


# Handed on already.
_KEPT = {"a_log_that_journald_has_kept", "killed_in_the_words_of_systemd"}


def essence(state: State) -> tuple[str, str, str]:
    line = re.sub(r"\s+", " ", state.cause.message)[:60] if state.cause else ""
    return state.verdict, state.category, line


@pytest.mark.parametrize("how", SAME)
@pytest.mark.parametrize("name", sorted(set(ALL) - _KEPT))
def test_a_log_that_was_handed_on(name: str, how: str) -> None:
    wanted, handed_on = ALL[name](), ALL[name]()
    handed_on.log.text = SAME[how](wanted.log.text)
    assert essence(variants.found(handed_on)) == essence(variants.found(wanted))


def as_objects(text: str) -> str:
    """As a formatter of Python's logging makes them: a record with its traceback in one object, and no rank."""
    lines: list[str] = []
    for line in text.split("\n"):
        record = _RECORD.match(line)
        if record:
            lines.append(json.dumps({"asctime": record[2], "level": "INFO", "message": line[record.end() :]}))
        else:
            lines.append(line)
    return "\n".join(lines)


# With no rank in a record, none can be told from another.
_NEED_RANKS = {
    "one_rank_never_ends_its_init",
    "oom_on_a_rank_that_began_with_less_than_its_peers",
    "one_rank_stays_behind_in_weights",
    "a_rank_of_the_second_stage_never_connects",
    "a_data_parallel_rank_never_loads",
    "a_log_that_journald_has_kept",
}


@pytest.mark.parametrize("name", sorted(set(ALL) - _NEED_RANKS))
def test_a_log_of_objects(name: str) -> None:
    wanted, handed_on = ALL[name](), ALL[name]()
    handed_on.log.text = as_objects(wanted.log.text)
    assert essence(variants.found(handed_on)) == essence(variants.found(wanted))
