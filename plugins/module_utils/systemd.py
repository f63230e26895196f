# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What systemd says of units: one ``systemctl show`` for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from .running import Runner, check

PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "UnitFileState",
    "MainPID",
    "ExecMainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "ExecMainStartTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "InvocationID",
    "NRestarts",
    "ControlGroup",
    "NeedDaemonReload",
    "FragmentPath",
    "DropInPaths",
)


def show(runner: Runner, units: Sequence[str], properties: Sequence[str] = PROPERTIES) -> dict[str, dict[str, str]]:
    """The properties of each unit, by the name that was asked for.

    A unit that does not exist has ``LoadState`` ``not-found``.

    :raises InferopsError: when systemd does not answer.
    """
    if not units:
        return {}
    argv = ["systemctl", "show", "--no-pager", "--property=" + ",".join(properties), *units]
    text = check(runner, argv, "asking systemd for the state of " + ", ".join(units), env={"LC_ALL": "C"})
    return dict(zip(units, (_block(block) for block in text.split("\n\n"))))


def _block(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key: value for key, dummy, value in pairs}
