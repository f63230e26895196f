#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_drain
short_description: Free GPUs of what may be ended, and wait until their memory is back
version_added: "0.1.0"
description:
  - Ends the processes that hold GPUs, as far as O(owned_by) allows. The holders are found by their open device nodes,
    not by the driver's pids, which may be those of another container.
  - Each process gets C(SIGTERM) first, a server's main process instead of its ranks, and C(SIGKILL) only after
    O(term_timeout). Before each signal it is made sure that the pid is still the same process.
  - If any holder may not be ended, nothing is ended, and the message names it. A running unit is not ended here.
  - Then it waits until the driver reports the memory free, and removes what dead servers left behind. That is build
    locks in the kernel caches and segments in C(/dev/shm) that no process has open.
  - The services of the driver itself (persistence daemon, fabric manager, DCGM) are left alone.
author:
  - The inferops.sglang authors (@inferops)
extends_documentation_fragment:
  - inferops.sglang.attributes
options:
  gpus:
    description: The GPUs to free, by index or UUID; all where the list is empty.
    type: list
    elements: str
    default: []
  owned_by:
    description: Whose processes may be ended.
    type: dict
    default: {}
    suboptions:
      units:
        description:
          - Units whose left over processes may be ended, once the unit no longer runs.
          - Patterns such as V(sglang-*.service) are understood.
        type: list
        elements: str
        default: []
      users:
        description: Users whose processes may be ended where they belong to no unit.
        type: list
        elements: str
        default: []
  force:
    description: End every holder, whosever it is, other than what this module runs under.
    type: bool
    default: false
  term_timeout:
    description: Seconds to wait after C(SIGTERM).
    type: float
    default: 30
  kill_timeout:
    description: Seconds to wait after C(SIGKILL). A process that is still there waits in the kernel.
    type: float
    default: 15
  memory_timeout:
    description: Seconds to wait until the memory is back.
    type: float
    default: 60
  memory_limit_mib:
    description: MiB that may stay in use on a free GPU.
    type: int
    default: 1024
  clean:
    description: Whether to remove stale locks and shared memory.
    type: bool
    default: true
  homes:
    description: Folders of homes, or homes, whose kernel caches are looked through for stale locks.
    type: list
    elements: path
    default: [/var/lib/sglang]
notes:
  - It needs root.
"""

EXAMPLES = r"""
- name: Free all GPUs of what stopped servers left
  inferops.sglang.gpu_drain:
    owned_by:
      units: [sglang-*.service]
      users: [sglang]

- name: Say what a server that somebody started by hand would lose
  inferops.sglang.gpu_drain:
    gpus: ["0", "1"]
    owned_by:
      users: [alice]
    term_timeout: 120
  check_mode: true
"""

RETURN = r"""
ended:
  description: The processes that were ended, or would be, with C(pid), C(user), C(unit), C(cmd) and C(signal).
  type: list
  elements: dict
  returned: always
  sample: [{pid: 419, user: alice, unit: null, orphan: true, cmd: "sglang::scheduler_TP0", signal: TERM}]
cleaned:
  description: The files that were removed, or would be, with C(path), C(kind) and C(bytes).
  type: list
  elements: dict
  returned: always
freed_bytes:
  description: How much less memory the GPUs use than before.
  type: int
  returned: always
waited_s:
  description: Seconds that it took.
  type: float
  returned: always
held_elsewhere:
  description: What holds a GPU outside this container, with C(gpu), C(pid) (the driver's), C(name) and C(memory_used).
  type: list
  elements: dict
  returned: always
held_by:
  description: The processes that stand in the way, with the C(reason) why they may not be ended.
  type: list
  elements: dict
  returned: when a process stands in the way
deferred:
  description: What cannot be known yet.
  type: list
  elements: str
  returned: success
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils.adapter import finish, outcome, runner_of
from ansible_collections.inferops.sglang.plugins.module_utils.gpu.drain import Wish, drain


def main() -> None:
    words = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "gpus": words,
            "owned_by": {"type": "dict", "default": {}, "options": {"units": words, "users": words}},
            "force": {"type": "bool", "default": False},
            "term_timeout": {"type": "float", "default": 30},
            "kill_timeout": {"type": "float", "default": 15},
            "memory_timeout": {"type": "float", "default": 60},
            "memory_limit_mib": {"type": "int", "default": 1024},
            "clean": {"type": "bool", "default": True},
            "homes": {"type": "list", "elements": "path", "default": ["/var/lib/sglang"]},
        },
        supports_check_mode=True,
    )
    given = dict(module.params)
    owned = given.pop("owned_by")

    def logic() -> dict[str, Any]:
        wish = Wish(
            gpus=tuple(given.pop("gpus")),
            units=tuple(owned.get("units") or ()),
            users=tuple(owned.get("users") or ()),
            memory_limit=given.pop("memory_limit_mib") << 20,
            homes=tuple(given.pop("homes")),
            **given,
        )
        done = drain(wish, runner_of(module), module.check_mode)
        return outcome(done.plan, **done.to_dict())

    finish(module, logic)


if __name__ == "__main__":
    main()
