#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_worker
short_description: Put a server behind the gateway, drain it, or take it away
version_added: 0.1.0
description:
  - Changes the gateway's list of workers and waits until the change is in force.
  - Runs on the gateway's host; delegate to it.
  - The list is one file there. A gateway that restarts has the same workers as before, drained ones stay drained.
extends_documentation_fragment:
  - inferops.sglang.attributes
attributes:
  check_mode:
    details: In check mode nothing is waited for.
options:
  url:
    description: The worker, as the gateway reaches it (C(http://gpu-01:30000)).
    type: str
    required: true
  state:
    description:
      - With V(present), it gets requests; the module returns when a generation through the gateway was answered by it.
      - With V(drained), it gets no new requests; the module returns when what runs on it has ended, or after
        O(drain_timeout) seconds. RV(in_flight) says what still runs then; that is not a failure.
      - With V(absent), the gateway does not know it; running requests end whole.
      - With V(known), it is in the list; one that is drained stays so, and nothing is waited for.
    type: str
    choices: [present, drained, absent, known]
    default: present
  drain_timeout:
    description: Seconds to wait for running requests, or with O(state=absent) for the gateway to forget the worker.
    type: float
    default: 300
  routable_timeout:
    description:
      - Seconds until a worker that is O(state=present) must have answered through the gateway.
      - With O(min_routable), seconds that enough others may take to be ready, and a gateway that restarts to say so.
    type: float
    default: 120
  min_routable:
    description:
      - A worker is not taken out when fewer than this many others would be left that get requests and are healthy.
      - Counted under a lock on the gateway's host, so two runs at once cannot both take the last but one.
    type: int
    default: 0
  gateway:
    description: The gateway's configuration on this host, as the role P(inferops.sglang.sglang_gateway#role) writes it.
    type: path
    default: /etc/sglang/gateway.json
author:
  - The inferops.sglang authors (@inferops)
seealso:
  - module: inferops.sglang.sglang_ready
"""

EXAMPLES = r"""
- name: Take the load off this host
  inferops.sglang.gateway_worker:
    url: "http://{{ inventory_hostname }}:30000"
    state: drained
    drain_timeout: 600
  delegate_to: gw-01
  register: drain

- name: Give it requests again, and see one arrive
  inferops.sglang.gateway_worker:
    url: "http://{{ inventory_hostname }}:30000"
    state: present
  delegate_to: gw-01
"""

RETURN = r"""
url:
  description: The worker, in the form in which it is kept.
  returned: success
  type: str
  sample: http://gpu-01:30000
state:
  description: The state asked for.
  returned: success
  type: str
  sample: drained
in_flight:
  description:
    - Requests that still ran when the wait for a drain ended; 0 when all had ended.
    - Nothing where the worker did not say, or was not asked.
  returned: success
  type: int
  sample: 0
drained_s:
  description: Seconds that the drain took.
  returned: success
  type: float
  sample: 12.4
routable:
  description: Whether the gateway sends requests to the worker. Nothing in check mode and with O(state=known).
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils.adapter import finish
from ansible_collections.inferops.sglang.plugins.module_utils.gateway import settings, worker


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "drained", "absent", "known"], "default": "present"},
            "drain_timeout": {"type": "float", "default": 300.0},
            "routable_timeout": {"type": "float", "default": 120.0},
            "min_routable": {"type": "int", "default": 0},
            "gateway": {"type": "path", "default": settings.CONFIG},
        },
        supports_check_mode=True,
    )
    finish(
        module,
        lambda: worker.ensure(
            settings.load(module.params["gateway"]),
            module.params["url"],
            module.params["state"],
            drain_timeout=module.params["drain_timeout"],
            routable_timeout=module.params["routable_timeout"],
            min_routable=module.params["min_routable"],
            check=module.check_mode,
        ),
    )


if __name__ == "__main__":
    main()
