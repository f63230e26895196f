# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A module's work done by the host agent, where the host has the controller's own: one command in place of a module.

A module is packed with everything that it imports for every run, sent to every host and compiled there. The agent holds
the same code. Its archive is compared with its digest, by code from here, before anything of it runs.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ansible import constants as C
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.module_utils.common.parameters import remove_values
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils import layout

#: Where the inventory leaves it to Ansible to find one.
_SYSTEM_PYTHON = "/usr/bin/python3"
#: In one line: a C shell, who may be the remote user's, takes no quoted text over several.
_START = "; ".join(
    [
        "import hashlib, sys",
        'path = "{folder}/{version}.pyz"',
        'ours = hashlib.sha256(open(path, "rb").read()).hexdigest().startswith("{version}")',
        'ours or sys.exit("another archive")',
        "sys.path.insert(0, path)",
        "from agent import {command}",
        "{command}.main()",
    ]
)


def ask(
    action: ActionBase,
    command: str,
    version: str,
    args: Mapping[str, Any],
    argument_spec: Mapping[str, Any],
    task_vars: Mapping[str, Any],
) -> dict[str, Any] | None:
    """The result of an agent's command that takes a module's parameters; ``None`` where the module itself has to go.

    That is so wherever anything is unusual: no agent of this version, a connection that takes no input, parameters that
    are wrong or that only the host can expand. The module says what is wrong in its own words.

    :raises AnsibleConnectionFailure: when the host does not answer.
    """
    if not action._is_pipelining_enabled("new"):
        return None
    checked = ArgumentSpecValidator(dict(argument_spec)).validate(dict(args))
    if checked.error_messages or any(re.search(r"^~|\$", path) for path in _paths(args, argument_spec)):
        return None
    script = _START.format(folder=layout.AGENT, version=version, command=command)
    # isolated, and without what a site adds: the agent needs nothing but the standard library
    words = shlex.join([_python(action, task_vars), "-I", "-S", "-c", script])
    encoder = get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE)
    told = json.dumps(checked.validated_parameters, cls=encoder).encode("utf-8", "surrogateescape")
    done = action._low_level_execute_command(f"{action._compute_environment_string()} {words}".lstrip(), in_data=told)
    lines = done["stdout"].splitlines()
    if done["rc"] != 0 or not lines:
        return None
    try:
        result = json.loads(lines[-1])
    except ValueError:
        return None
    return remove_values(result, checked._no_log_values) if isinstance(result, dict) else None


def _python(action: ActionBase, task_vars: Mapping[str, Any]) -> str:
    """The interpreter that the inventory names; without a word from it, the system's own."""
    named = C.config.get_config_value("INTERPRETER_PYTHON", variables=dict(task_vars))
    named = str(action._templar.template(named))
    return named if named.startswith("/") else _SYSTEM_PYTHON


def _paths(value: Mapping[str, Any], argument_spec: Mapping[str, Any]) -> Iterator[str]:
    """Every path in the parameters: the module expands a home or a variable as the host's user has them."""
    for name, option in argument_spec.items():
        found = value.get(name)
        if found is None:
            continue
        if option.get("type") == "path":
            yield str(found)
        elif option.get("elements") == "path":
            yield from map(str, found)
        elif "options" in option:
            for part in found if isinstance(found, list) else [found]:
                yield from _paths(part, option["options"])
