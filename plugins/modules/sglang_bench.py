#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_bench
short_description: Measure how fast a running server generates, with the spread of repeated runs
version_added: 0.1.0
description:
  - Sends streaming requests to an instance of this host, at one or several concurrencies, and returns medians over
    repeated runs. The first run at each concurrency does not count.
  - Each prompt is new, so that no cached prefix helps; sampling is as in production, and each request generates the
    full O(output_len).
  - With speculation on, the accept length is what the requests themselves report, against C(num_steps + 1).
  - Take the server out of the gateway first. Other traffic makes the figures worthless.
extends_documentation_fragment:
  - inferops.sglang.attributes.reader
  - inferops.sglang.run
options:
  instance:
    description: The name of the instance.
    type: str
    required: true
  prompts:
    description: Prompts to use in turn; yours are better than the shipped ones.
    type: list
    elements: str
    default: []
  concurrency:
    description: How many requests run at once; each is measured for itself.
    type: list
    elements: int
    default: [1, 4]
  requests:
    description: Requests in one run, at least twice the concurrency.
    type: int
    default: 4
  output_len:
    description: Tokens that each request generates.
    type: int
    default: 128
  repeat:
    description: Runs that count at each concurrency. Fewer than four decide nothing.
    type: int
    default: 5
  sampling:
    description: Sampling parameters, merged into C(temperature=0.6), C(top_p=0.95).
    type: dict
    default: {}
  timeout:
    description: Longest wait for the next token, in seconds.
    type: float
    default: 300
  compare_with:
    description: An earlier result of this module. With it, RV(verdicts) and RV(problems) compare the two.
    type: dict
  min_speed_ratio:
    description: Tokens per second against O(compare_with) below which the gate fails, if that is beyond the noise.
    type: float
    default: 0.9
  min_accept_length:
    description: Accept length below which the gate fails. About 1 fails always, the draft is then never right.
    type: float
    default: 0
  gate:
    description: Whether RV(problems) are a failure.
    type: bool
    default: false
notes:
  - Run it as root. The API key of the server must be readable.
author:
  - The inferops.sglang authors (@inferops)
seealso:
  - module: inferops.sglang.sglang_verdict
"""

EXAMPLES = r"""
- name: Measure
  inferops.sglang.sglang_bench:
    instance: kimi
    concurrency: [1, 8]
    prompts: "{{ lookup('ansible.builtin.file', 'prompts.txt').splitlines() }}"
  register: measured

- name: Fail where the new release is slower
  inferops.sglang.sglang_bench:
    instance: kimi
    compare_with: "{{ measured_before }}"
    gate: true
"""

RETURN = r"""
levels:
  description: The figures at each concurrency.
  returned: success
  type: list
  elements: dict
  contains:
    concurrency:
      description: Requests at once.
      type: int
      sample: 1
    output_tok_s:
      description: Tokens per second of all requests, each as C(median), C(min), C(max), C(spread) (relative), C(runs).
      type: dict
    ttft_ms:
      description: Time to the first token.
      type: dict
    itl_ms:
      description: Time between tokens after the first.
      type: dict
    accept_length:
      description: Mean tokens in a verify step. Nothing without speculation.
      type: dict
accept_length:
  description: The least of the levels' medians. Nothing without speculation.
  returned: success
  type: float
  sample: 2.71
accept_length_most:
  description: The most that the accept length can be.
  returned: success
  type: int
  sample: 3
conditions:
  description: Clocks, power and slowdown reasons of the GPUs before and after, and the server's effective limits.
  returned: success
  type: dict
verdicts:
  description: At each concurrency, whether this is faster (V(on)), slower (V(off)) or V(undecided), and the ratio.
  returned: with O(compare_with)
  type: list
  elements: dict
problems:
  description: What the gate objects to.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter
from ansible_collections.inferops.sglang.plugins.module_utils.bench import gated
from ansible_collections.inferops.sglang.plugins.module_utils.server import lease


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "str", "required": True},
            "prompts": {"type": "list", "elements": "str", "default": []},
            "concurrency": {"type": "list", "elements": "int", "default": [1, 4]},
            "requests": {"type": "int", "default": 4},
            "output_len": {"type": "int", "default": 128},
            "repeat": {"type": "int", "default": 5},
            "sampling": {"type": "dict", "default": {}},
            "timeout": {"type": "float", "default": 300.0},
            "compare_with": {"type": "dict"},
            "min_speed_ratio": {"type": "float", "default": 0.9},
            "min_accept_length": {"type": "float", "default": 0.0},
            "gate": {"type": "bool", "default": False},
            "run": {"type": "dict", "options": lease.RUN},
        },
        supports_check_mode=True,
    )
    adapter.finish(module, lambda: gated.run(adapter.runner_of(module), module.params, module.check_mode))


if __name__ == "__main__":
    main()
