#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gateway_plan
short_description: Compare a gateway's list of workers with the servers that it is to have
version_added: "0.1.0"
description:
  - Looks, on the gateway's host, at the list of workers and at the manifest that the gateway reads, and returns which
    servers are not there or get no requests.
  - It changes nothing. M(inferops.sglang.gateway_worker) puts a server right; the playbook C(inferops.sglang.drift)
    also the permissions of the gateway's keys.
extends_documentation_fragment:
  - inferops.sglang.attributes.reader
options:
  hosts:
    description:
      - The hosts whose servers this gateway is to have. Their variables C(sglang_replica), C(sglang_instances) and
        C(sglang_worker_urls) are looked at, as M(inferops.sglang.sglang_rollout) does.
    type: list
    elements: str
    required: true
  workers:
    description: The URLs of these servers. Set by the action plugin; leave it out.
    type: list
    elements: str
    default: []
  gateway:
    description: The gateway's configuration.
    type: path
    default: /etc/sglang/gateway.json
seealso:
  - module: inferops.sglang.gateway_worker
  - module: inferops.sglang.sglang_plan
author:
  - The inferops.sglang authors (@inferops)
"""

EXAMPLES = r"""
- name: Does the gateway know all servers?
  inferops.sglang.gateway_plan:
    hosts: "{{ groups['sglang'] }}"
  delegate_to: gw-01
  run_once: true
"""

RETURN = r"""
plan:
  description: What differs and can be put right, in the form of RV(inferops.sglang.sglang_plan#module:plan).
  returned: success
  type: list
  elements: dict
  sample:
    - {resource: gateway, what: "worker http://gpu-01:30000", before: absent, after: present, consequence: none}
noticed:
  description: What differs and is never put right (a worker that no host describes, keys that are not there).
  returned: success
  type: list
  elements: dict
  sample: []
in_sync:
  description: Whether RV(plan) is empty.
  returned: success
  type: bool
observed:
  description: The state of each worker that is listed, as C(workers), by URL.
  returned: success
  type: dict
  sample: {workers: {"http://gpu-01:30000": present}}
owners:
  description: The host of each server, by its URL.
  returned: success
  type: dict
  sample: {"http://gpu-01:30000": gpu-01}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils.adapter import finish
from ansible_collections.inferops.sglang.plugins.module_utils.gateway import registration, settings


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "hosts": {"type": "list", "elements": "str", "required": True},
            "workers": {"type": "list", "elements": "str", "default": []},
            "gateway": {"type": "path", "default": settings.CONFIG},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: registration.run(module.params["workers"], module.params["gateway"]))


if __name__ == "__main__":
    main()
