# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The words of the flow analysis: what a value stands for, and what is noted of a place that needs something."""

from __future__ import annotations

from dataclasses import dataclass, field

TARGET = "target"
DRAFT = "draft"
MODEL, RUNNER, WORKER = "model", "runner", "worker"
#: What a value stands for: whose it is, and what.
Kind = tuple[str, str]

MODEL_EXECUTOR = "sglang.srt.model_executor"
OWN_PACKAGES = (MODEL_EXECUTOR, "sglang.srt.speculative")
NAMES: dict[str, Kind] = {
    "target_worker": (TARGET, WORKER),
    "_target_worker": (TARGET, WORKER),
    "draft_runner": (DRAFT, RUNNER),
    "draft_model_runner": (DRAFT, RUNNER),
    "draft_runner_list": (DRAFT, RUNNER),
    "mtp_model_runner": (DRAFT, RUNNER),
}


@dataclass(frozen=True)
class Shape:
    """How a method is called: number of positional arguments, names of keywords, and whether ``*`` hides more."""

    positional: int
    keywords: tuple[str, ...]
    starred: bool


@dataclass(frozen=True)
class Use:
    """One place that needs ``name`` of a model.

    ``certain``: every test on the way is known to let it through. ``speculative``: without speculation it is not
    reached. ``unless``: it is reached only where the model has none of these.
    """

    owner: str
    name: str
    path: str
    line: int
    function: str
    certain: bool
    speculative: bool
    call: Shape | None = None
    unless: tuple[str, ...] = ()


@dataclass
class State:
    """What holds at a point of a function: values by name, names known to be there, and the tests passed."""

    env: dict[str, Kind] = field(default_factory=dict)
    present: set[tuple[str, str]] = field(default_factory=set)
    absent: set[tuple[str, str]] = field(default_factory=set)
    certain: bool = True
    speculative: bool = False

    def copy(self) -> State:
        return State(dict(self.env), set(self.present), set(self.absent), self.certain, self.speculative)
