#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller

from __future__ import annotations

DOCUMENTATION = r"""
---
module: sglang_drift
short_description: Report in what a fleet differs from its description
version_added: "0.1.0"
description:
  - Makes one report from the registered results of M(inferops.sglang.sglang_plan) and
    M(inferops.sglang.gateway_plan), prints one screen of it, and writes it as C(drift.json), as the page C(drift.html)
    and, on request, as metrics for Prometheus.
  - It runs on the controller and touches no host. The playbook C(inferops.sglang.drift) uses it.
extends_documentation_fragment:
  - inferops.sglang.attributes.reader
options:
  hosts:
    description: The hosts to report on, in this order. One without a result was not looked at and is left out.
    type: list
    elements: str
    required: true
  gateways:
    description:
      - The C(results) of a loop over gateways with M(inferops.sglang.gateway_plan); each one's C(item.key) is the host.
    type: list
    elements: dict
    default: []
  folder:
    description: Where C(drift.json), C(drift.html) and C(drift-history.jsonl) are written. In check mode they are not.
    type: path
    required: true
  metrics:
    description: A file for the textfile collector of Prometheus' node_exporter.
    type: path
  correct:
    description: Whether this run corrects.
    type: bool
    default: false
  earlier:
    description: The RV(report) of this run before it corrected; what is gone since counts as put right.
    type: dict
  variable:
    description: The name of the variable that M(inferops.sglang.sglang_plan) was registered in.
    type: str
    default: sglang_planned
seealso:
  - module: inferops.sglang.sglang_plan
  - module: inferops.sglang.gateway_plan
author:
  - The inferops.sglang authors (@inferops)
"""

EXAMPLES = r"""
- name: Report
  inferops.sglang.sglang_drift:
    hosts: "{{ groups['sglang'] }}"
    folder: reports
  register: found

- name: Name the hosts that drifted
  ansible.builtin.debug:
    var: found.drifted
"""

RETURN = r"""
report:
  description: The report as in C(drift.json); the guide on drift describes each key.
  type: dict
  returned: always
  sample: {format: 1, summary: {hosts: 8, drifted: 1}}
drifted:
  description: The hosts that differ.
  type: list
  elements: str
  returned: always
  sample: [gpu-03]
silent:
  description: The hosts that did not answer.
  type: list
  elements: str
  returned: always
  sample: []
failing:
  description: The hosts that answered and could not be compared.
  type: list
  elements: str
  returned: always
  sample: []
correctable:
  description: The hosts with something that a rollout can put right. One that did not answer is none of them.
  type: list
  elements: str
  returned: always
  sample: [gpu-03]
open_keys:
  description: The gateways whose keys have other permissions than they should have.
  type: list
  elements: str
  returned: always
  sample: []
disturbing:
  description: Whether putting right means the restart of a server anywhere.
  type: bool
  returned: always
  sample: true
lines:
  description: What was printed.
  type: list
  elements: str
  returned: always
  sample: ["8 host(s): 7 in sync, 1 drifted; 1 difference(s)"]
"""
