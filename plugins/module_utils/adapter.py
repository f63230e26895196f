# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The only place where the logic meets Ansible: runs programs for it and turns its errors into results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule

from .changes import Plan
from .errors import InferopsError
from .files import readable
from .running import Completed, Runner


def runner_of(module: AnsibleModule) -> Runner:
    """A runner on the module's ``run_command``."""

    def run(
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        data: str | None = None,
    ) -> Completed:
        rc, stdout, stderr = module.run_command(
            list(argv), environ_update=dict(env or {}), cwd=cwd, data=data, handle_exceptions=False
        )
        return Completed(rc, stdout, stderr)

    def run_or_say(argv: Sequence[str], **kwargs: Any) -> Completed:
        try:
            return run(argv, **kwargs)
        except (OSError, ValueError) as error:
            return Completed(127, "", f"{argv[0]}: {error}")

    return run_or_say


def finish(module: AnsibleModule, logic: Callable[[], dict[str, Any]]) -> None:
    """Call the logic and exit with its result; an ``InferopsError`` becomes ``fail_json`` with what is known."""
    try:
        result = logic()
    except InferopsError as error:
        module.fail_json(**readable({**error.result, "msg": error.message}))
    module.exit_json(**readable(result))


def outcome(plan: Plan, **returns: Any) -> dict[str, Any]:
    """The part of a result that every module with a plan shares."""
    return {"changed": plan.changed, "diff": plan.diff(), "deferred": plan.deferred, **returns}
