#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_rollout
short_description: Plan a rollout over a fleet, and note how it goes
version_added: 0.1.0
description:
  - Works out in what order and in which batches hosts are changed, and keeps the plan in a file on the controller.
  - Notes the state of each unit there, so that a rollout that was cut off can be resumed.
  - Nothing is done on any host. The playbook C(inferops.sglang.rollout) works the plan off.
extends_documentation_fragment:
  - inferops.sglang.attributes
attributes:
  check_mode:
    details: In check mode the plan is worked out and not written.
  diff_mode:
    support: none
  idempotent:
    support: none
    details: A new plan replaces the old one.
options:
  path:
    description: The plan's file, on the controller. Without one, a plan is worked out and not kept.
    type: path
  hosts:
    description:
      - Hosts to roll, in order. With it, a plan is made.
      - Their variables C(sglang_gateway) (the host of their gateway, or a list of several), C(sglang_replica),
        C(sglang_instances), C(sglang_instances_override) and C(sglang_worker_urls) are looked at.
      - Hosts that serve beside them (behind one of their gateways, or without one in the group C(sglang)) are left
        alone and count as workers that stay.
    type: list
    elements: str
  only:
    description:
      - Hosts that are changed; the others of O(hosts) are left alone, too. By default all are changed.
      - What a rollout was to leave alone, it leaves alone when it is resumed.
    type: list
    elements: str
  wishes:
    description: How to go about it, see the guide on rollouts.
    type: dict
    default: {}
  resume:
    description: Plan only what the plan that is kept has left.
    type: bool
    default: false
  unit:
    description: The unit (a host or a replica) whose O(state) is to be noted.
    type: str
  state:
    description: The state to note.
    type: str
    choices: [started, done, restored, out, busy, unreachable]
  note:
    description: What to remember with the state.
    type: str
    default: ""
  figures:
    description: Results of M(inferops.sglang.sglang_bench), by instance, that later units are compared with.
    type: dict
    default: {}
  was:
    description:
      - The numbers of the activations that are in force on this host before it is touched, by instance. Kept until they
        are in force again or the unit is done, so that a rollout that was cut off knows what to put back.
    type: dict
    default: {}
  replaced:
    description: Results of M(inferops.sglang.sglang_bench), by instance, of what is to be replaced. Kept as O(was).
    type: dict
    default: {}
author:
  - The inferops.sglang authors (@inferops)
"""

EXAMPLES = r"""
- name: Plan
  inferops.sglang.sglang_rollout:
    path: "{{ lookup('ansible.builtin.env', 'PWD') }}/reports/rollout.json"
    hosts: "{{ groups['sglang'] }}"
    wishes:
      canary: [gpu-03]
      batch: 25%
      min_routable: 6
  delegate_to: localhost
  run_once: true
  register: planned

- name: Show the plan
  ansible.builtin.debug:
    msg: "{{ planned.lines }}"
"""

RETURN = r"""
plan:
  description: The plan as it is now.
  returned: success
  type: dict
lines:
  description: The plan, and what became of it, as text.
  returned: success
  type: list
  elements: str
unfinished:
  description: The units that were to be changed and are not done.
  returned: success
  type: list
  elements: str
stop:
  description: Why the rollout must not go on; nothing where it may.
  returned: success
  type: str
"""
# The work is done by the action plugin of the same name, on the controller.
