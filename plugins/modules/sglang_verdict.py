#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_verdict
short_description: Keep on the host whether speculation is worth it there
version_added: 0.1.0
description:
  - Compares measurements without and with speculation, and keeps the outcome for an instance whose
    C(speculative.policy) is C(measured).
  - The verdict counts for exactly this build, these options, models and GPUs; when one changes, it has expired.
  - Where the difference is within the noise, nothing is kept and the present state stays.
extends_documentation_fragment:
  - inferops.sglang.attributes
  - inferops.sglang.instance
options:
  baseline:
    description: A result of M(inferops.sglang.sglang_bench) without speculation.
    type: dict
    required: true
  speculative:
    description: A result of M(inferops.sglang.sglang_bench) with speculation, at the same concurrencies.
    type: dict
    required: true
  min_gain:
    description: A smaller relative difference decides nothing, however low the noise is.
    type: float
    default: 0.01
author:
  - The inferops.sglang authors (@inferops)
seealso:
  - module: inferops.sglang.sglang_bench
"""

EXAMPLES = r"""
- name: Keep the verdict
  inferops.sglang.sglang_verdict:
    instances: "{{ sglang_instances | inferops.sglang.instance_list(only=['kimi']) }}"
    baseline: "{{ without }}"
    speculative: "{{ with_eagle3 }}"
"""

RETURN = r"""
decision:
  description: V(on), V(off), or V(undecided).
  returned: success
  type: str
  sample: "off"
ratio:
  description: Tokens per second with speculation over those without, at the concurrency where it does worst.
  returned: success
  type: float
  sample: 0.86
verdicts:
  description: The comparison at each concurrency.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter
from ansible_collections.inferops.sglang.plugins.module_utils.bench import keep
from ansible_collections.inferops.sglang.plugins.module_utils.server import spec


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instances": spec.instances_option(),
            "baseline": {"type": "dict", "required": True},
            "speculative": {"type": "dict", "required": True},
            "min_gain": {"type": "float", "default": 0.01},
        },
        supports_check_mode=True,
    )
    params = module.params
    adapter.finish(
        module,
        lambda: keep.verdict(
            params["instances"], params["baseline"], params["speculative"], params["min_gain"], module.check_mode
        ),
    )


if __name__ == "__main__":
    main()
