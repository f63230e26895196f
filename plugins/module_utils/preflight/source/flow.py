# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the speculative path of a release asks of the target model and of the draft model.

A small abstract interpretation: values are followed by what they stand for (the target's model, its runner, its
worker; the draft's), through assignments, attributes, and calls into other functions of the sources. Tests that a
configuration decides prune branches; ``hasattr`` and ``getattr`` with a default guard a use, unless their absence is
answered by an exception.
"""

from __future__ import annotations

from collections.abc import Mapping

from .classes import Classes
from .conditions import Configuration
from .follow import Follower
from .package import Found, Function, FunctionNode, Module, Sources
from .uses import Kind, State, Use
from .values import Scope


class Flow:
    """Collects the uses, function by function. ``uses`` holds them in the order in which they are found."""

    def __init__(self, sources: Sources, classes: Classes, known: Configuration, without: Configuration) -> None:
        self.sources = sources
        self.classes = classes
        self.known = known
        self.without = without
        self.uses: list[Use] = []
        self._done: set[tuple[int, frozenset[tuple[str, Kind]], bool, bool]] = set()
        self._attributes: dict[int, dict[str, Kind]] = {}

    def analyze_class(self, found: Found) -> None:
        """Follow every method of a class, as its workers or runners call them."""
        for item in found.node.body:
            if isinstance(item, Function):
                self.analyze(found.module, item, found, {}, State())

    def analyze(
        self,
        module: Module,
        function: FunctionNode,
        owner: Found | None,
        given: Mapping[str, Kind],
        at: State,
    ) -> None:
        """Follow one function, its parameters standing for what ``given`` says."""
        speculative = at.speculative or module.name.startswith("sglang.srt.speculative")
        key = (id(function), frozenset(given.items()), at.certain, speculative)
        if key in self._done:
            return
        self._done.add(key)
        Follower(self, module, function, owner, given, at.certain, speculative).run()

    def attributes(self, owner: Found | None) -> dict[str, Kind]:
        """What the attributes of ``self`` stand for, from the assignments in the class's own methods."""
        if owner is None:
            return {}
        key = id(owner.node)
        if key not in self._attributes:
            found: dict[str, Kind] = {}
            self._attributes[key] = found
            for item in owner.node.body:
                if isinstance(item, Function):
                    scope = Scope(self, owner.module, item, owner, {}, True, False)
                    found.update(scope.own_attributes())
        return self._attributes[key]
