# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The patches of an environment in place, as far as they belong to an activation.

A sealed build carries its patches in itself, so that an activation names them by naming the build. A tree that its
owner keeps is patched where it lies: an activation therefore keeps the definitions that were in force in it, and a
restore brings the tree back to exactly those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..changes import RESTART, Plan
from ..running import Runner
from .spec import IN_PLACE

if TYPE_CHECKING:
    from ..patch.in_place import Wish

EXACTLY = "exactly"


def plan(runner: Runner, instance: Mapping[str, Any]) -> Plan:
    """The patches of the description that the instance's tree lacks. Others that are in it are its owner's matter.

    :raises InferopsError: when a patch conflicts with the tree.
    """
    changes = Plan()
    definitions = instance.get("definitions") or []
    if instance["mode"] == IN_PLACE and definitions:
        _extend(changes, runner, instance, _wish(instance["python"], definitions, "present"))
    return changes


def in_force(runner: Runner, instance: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The definitions that are in force in the tree; ``None`` for a build, which names its own."""
    if instance["mode"] != IN_PLACE:
        return None
    from ..patch import in_place

    return in_place.in_force(runner, instance["python"])


def plan_restore(runner: Runner, instance: Mapping[str, Any], kept: Mapping[str, Any]) -> Plan:
    """What of the tree's patches is not as it was in the activation ``kept``.

    :raises InferopsError: when the tree cannot be brought back.
    """
    changes = Plan()
    if _says(kept):
        _extend(changes, runner, instance, _wish(kept["python"], kept["patches"], EXACTLY))
    return changes


def restore(runner: Runner, kept: Mapping[str, Any]) -> None:
    """Bring the tree's patches back to what they were in the activation ``kept``: all of them, or none.

    :raises InferopsError: when that cannot be done; nothing was written then.
    """
    if _says(kept):
        from ..patch import in_place

        in_place.bring(runner, _wish(kept["python"], kept["patches"], EXACTLY), check_mode=False)


def _says(kept: Mapping[str, Any]) -> bool:
    """Activations of builds, and of releases of this collection that kept no definitions, say nothing of a tree."""
    return kept["mode"] == IN_PLACE and kept.get("patches") is not None


def _wish(python: str, definitions: list[dict[str, Any]], state: str) -> Wish:
    # a plan of a host without such environments is spared the import
    from ..patch.in_place import Wish

    return Wish(python, definitions, state, integrity=False)


def _extend(changes: Plan, runner: Runner, instance: Mapping[str, Any], wish: Wish) -> None:
    """Add what ``wish`` would change in the tree."""
    from ..patch import in_place

    told = in_place.bring(runner, wish, check_mode=True)
    if told["changed"]:
        for one in told["patches"]:
            if one["was"] != one["state"]:
                changes.add(f"patches/{instance['name']}", one["name"], one["was"], one["state"], RESTART)
