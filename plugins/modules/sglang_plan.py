#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: sglang_plan
short_description: Compare a host with its description, in one call
version_added: "0.1.0"
description:
  - Looks at everything that this collection manages on a host (service user and folders, CUDA toolkit, builds,
    activations, processes), and at who holds the GPUs, and returns what differs, each difference with what applying it
    would mean for a running server.
  - It changes nothing, and it is fast, so that C(deploy.yml) asks it first and does nothing more on a host that is as
    described.
author:
  - The inferops.sglang authors (@inferops)
extends_documentation_fragment:
  - inferops.sglang.attributes.reader
  - inferops.sglang.instance
options:
  toolkit:
    description: The CUDA toolkit, as M(inferops.sglang.cuda_toolkit) takes it; C(source=none) leaves it alone.
    type: dict
    default: {}
  described:
    description:
      - The names of all instances that the host is to have, where O(instances) are some of them. An instance that was
        put in force there and is in neither is named in RV(noticed). Left out, nothing is said of such.
    type: list
    elements: str
  python:
    description: The interpreter on the host that builds are made with; it is looked for where one has to be made.
    type: path
  thorough:
    description:
      - Read every file of every build in place of those alone whose size or time changed. Takes minutes for some
        gigabytes on a slow disk.
    type: bool
    default: false
  agent_version:
    description: The host agent that belongs to this collection. Set by the action plugin; leave it out.
    type: str
seealso:
  - module: inferops.sglang.sglang_server
  - module: inferops.sglang.python_env
"""

EXAMPLES = r"""
- name: What differs on this host?
  inferops.sglang.sglang_plan:
    instances: "{{ sglang_instances | inferops.sglang.instance_list }}"
    toolkit:
      source: apt
      version: "13.0"
  register: planned

- name: Say so
  ansible.builtin.debug:
    msg: "{{ planned.plan }}"
  when: not planned.in_sync
"""

RETURN = r"""
plan:
  description: What differs, in the order in which it is put right.
  returned: success
  type: list
  elements: dict
  contains:
    resource:
      description: Kind and name of the resource.
      type: str
      sample: activation/kimi
    what:
      description: The part that differs.
      type: str
      sample: /etc/systemd/system/sglang-kimi.service
    before:
      description: As found; never a secret.
      type: raw
    after:
      description: As described; never a secret.
      type: raw
    consequence:
      description: What putting it right means for a running server (V(none), V(restart) or V(rebuild)).
      type: str
      sample: restart
noticed:
  description:
    - What differs and is never put right by this collection, in the form of RV(plan). A stranger's process on a GPU, a
      driver whose libraries are not those of the loaded module, or that was moved since the servers were last seen
      serving; an instance that is in force on the host and that nobody describes.
  returned: success
  type: list
  elements: dict
in_sync:
  description: Whether RV(plan) is empty.
  returned: success
  type: bool
consequence:
  description: The weightiest consequence in RV(plan).
  returned: success
  type: str
  sample: none
deferred:
  description: What cannot be known yet (the options of a build that does not exist, say).
  returned: success
  type: list
  elements: str
observed:
  description: What was found, by resource.
  returned: success
  type: dict
  contains:
    host:
      description: Service user, folders, compilers and agent.
      type: dict
    toolkit:
      description: CUDA toolkits; nothing where O(toolkit) describes none.
      type: dict
    gpus:
      description: The C(driver), its C(libraries), and the C(holders) of GPUs; nothing where there are neither.
      type: dict
    instances:
      description:
        - By name, each instance's C(state) (V(ready), V(starting), V(failed), V(stopped), V(absent)), C(release),
          C(build_id), C(activation), C(outcome), C(restored_from), C(url), C(main_pid), C(active_since),
          C(restart_reasons), C(patches) and C(start), the record of its last start.
      type: dict
asked:
  description:
    - Who compared. V(agent) is the host's agent, where it is this collection's own and the connection can hand it what
      it needs; otherwise the module itself is sent there, which costs more.
  returned: success
  type: str
  sample: agent
agent:
  description: The host agent that belongs to this collection, its C(path) on the controller and its C(version).
  returned: success
  type: dict
builds:
  description: The builds that have to be made, each with its C(build_id), its C(lock) and its C(patches) as described.
  returned: success
  type: list
  elements: dict
trees:
  description: The environments in place that have to be patched, each with C(name), C(python) and C(patches).
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter, planning
from ansible_collections.inferops.sglang.plugins.module_utils.server import spec


def main() -> None:
    module = AnsibleModule(argument_spec=spec.plan_arguments(), supports_check_mode=True)
    params = module.params
    adapter.finish(
        module,
        lambda: planning.run(
            adapter.runner_of(module),
            params["instances"],
            params["toolkit"],
            params["agent_version"] or "",
            params["thorough"],
            params["described"],
            params["python"],
        ),
    )


if __name__ == "__main__":
    main()
