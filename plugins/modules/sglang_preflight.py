#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_preflight
short_description: Finds out why an SGLang server would fail, before anything is stopped or launched
version_added: "0.1.0"
description:
  - Checks each instance against the sources of the installed SGLang, the files of its models, the host and the unit's
    environment. Weights are never read and SGLang is never imported.
  - The interface check reads what the speculative path of the installed release asks of the target's class, and names
    everything that the class lacks, with the places where it would be called.
  - A second part looks from inside the unit's settings (user, PATH, limits, sandbox), by a transient unit with
    the same ones. It imports and compiles, and creates no CUDA context.
  - It fails on a finding of severity C(error) unless the instance names it under C(acknowledge).
author: The inferops.sglang authors (@inferops)
extends_documentation_fragment:
  - inferops.sglang.attributes.reader
  - inferops.sglang.instance
options:
  inside_unit:
    description:
      - Whether to look from inside the unit's settings too. It takes some seconds for each instance.
      - Without it, the checks take about a second for a model of 64 files.
    type: bool
    default: true
  adopt:
    description:
      - Whether a server that someone started by hand on the port of an instance is going to be taken over. It may then
        hold the port and the GPUs.
    type: bool
    default: false
notes:
  - What cannot be known yet (a build that does not exist has no sources) is marked RV(checks[].deferred), not guessed.
  - All checks are listed in C(docs/preflight.md).
seealso:
  - module: inferops.sglang.sglang_server
  - module: inferops.sglang.sglang_patch
"""

EXAMPLES = r"""
- name: Would these servers start, and speculate?
  inferops.sglang.sglang_preflight:
    instances: "{{ my_instances }}"

- name: The files alone, in about a second
  inferops.sglang.sglang_preflight:
    instances:
      - name: kimi
        model_path: /shared/kimi-k2.5-int4
        lock: sglang-0.5.9-cu130
        patches: [kimi_k25_eagle3_delegation]
        args:
          tp_size: 8
        speculative:
          draft_model_path: /data/eagle3/4
          num_steps: 2
          eagle_topk: 4
          num_draft_tokens: 16
        acknowledge: [mla_topk_tree_mask]
    inside_unit: false
"""

RETURN = r"""
checks:
  description: Every check that applies, for each instance; those that need attention come first.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check. It can be used in C(acknowledge).
      type: str
      sample: target_interface
    instance:
      description: Name of the instance.
      type: str
      sample: kimi
    ok:
      description: Whether it is in order.
      type: bool
    severity:
      description: How grave it is where it is not (V(error), V(warning), V(info)).
      type: str
      sample: error
    message:
      description: What was found, what was wanted, where, and what to do.
      type: str
    evidence:
      description: The values behind the message.
      type: dict
    deferred:
      description: Whether it cannot be known yet.
      type: bool
    acknowledged:
      description: Whether it is not in order, and the instance accepts that.
      type: bool
summary:
  description: A line for each finding that is not in order.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import run
from ansible_collections.inferops.sglang.plugins.module_utils.server import spec


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instances": spec.instances_option(),
            "inside_unit": {"type": "bool", "default": True},
            "adopt": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params

    def logic() -> dict[str, object]:
        return run.preflight(
            params["instances"],
            adapter.runner_of(module),
            inside_unit=params["inside_unit"],
            adopting=params["adopt"],
        )

    adapter.finish(module, logic)


if __name__ == "__main__":
    main()
