#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller

from __future__ import annotations

DOCUMENTATION = r"""
---
module: sglang_summary
short_description: Print one screen of what runs on which host
version_added: "0.1.0"
description:
  - Prints, from the registered results of M(inferops.sglang.sglang_plan), a few lines for each instance of each host,
    its release, its patches with their states, the phases of its last start with their seconds, the text of one
    generation and, with speculative decoding, the accept length.
  - It runs on the controller and touches no host.
extends_documentation_fragment:
  - inferops.sglang.attributes.reader
options:
  hosts:
    description: The hosts to show, in this order.
    type: list
    elements: str
    required: true
  drift:
    description: Reports of C(drift.yml). The verdict of the newest that is there is printed at the end.
    type: list
    elements: path
    default: []
  variable:
    description: The name of the variable that M(inferops.sglang.sglang_plan) was registered in.
    type: str
    default: sglang_planned
seealso:
  - module: inferops.sglang.sglang_plan
author:
  - The inferops.sglang authors (@inferops)
"""

EXAMPLES = r"""
- name: Say what runs where
  inferops.sglang.sglang_summary:
    hosts: "{{ groups['sglang'] }}"
"""

RETURN = r"""
lines:
  description: What was printed.
  type: list
  elements: str
  returned: always
  sample: ["sgl2  chat      ready       SGLang 0.5.23   http://127.0.0.1:30000"]
"""
