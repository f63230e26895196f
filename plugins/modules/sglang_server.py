#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_server
short_description: Puts SGLang servers in force as systemd units, and starts, stops and restarts them
version_added: "0.1.0"
description:
  - Puts a build, the unit, its environment and its secrets in force as one activation, which is kept with its content.
  - A running server is restarted only when something changed that its process depends on. RV(servers[].restart_reasons)
    says what.
  - It does not wait until a server is ready. That is what M(inferops.sglang.sglang_ready) does.
author:
  - The inferops.sglang authors (@inferops)
extends_documentation_fragment:
  - inferops.sglang.attributes
  - inferops.sglang.instance
  - inferops.sglang.run
options:
  state:
    description:
      - V(started) puts the instances in force and starts or restarts them as needed.
      - V(stopped) stops them, after their running requests.
      - V(restarted) is as V(started), and restarts a server that needs none.
      - V(restored) puts the last activation that served back in force and starts it.
      - V(claimed) takes the lease on the instances for this run and changes nothing else. A playbook does that before
        it takes load off a host, so that it does not get in the way of another run.
      - V(released) gives the lease back, if this run holds it. A playbook does that when it is done with the host.
      - V(absent) stops the instances and takes them off the host. Their logs stay. The name of such an instance is
        enough.
    type: str
    choices: [started, stopped, restarted, restored, claimed, released, absent]
    default: started
  enabled:
    description: Whether the units start with the host.
    type: bool
    default: true
  adopt:
    description:
      - Whether a server that someone started by hand on the port of an instance may be ended, after its running
        requests, and replaced by the unit.
    type: bool
    default: false
  reject:
    description:
      - With O(state=restored), activations that must not be kept although they served, by the name of their instance.
      - One that is in force is marked as failed, and the last good one before it is put back. One that is not in force
        any more needs nothing.
    type: dict
    default: {}
  term:
    description:
      - For how many seconds the lease holds, beyond a drain, unless it is renewed.
      - Each call of this module that changes something renews it; M(inferops.sglang.sglang_ready) and
        M(inferops.sglang.sglang_bench) do as long as they work.
    type: int
    default: 300
notes:
  - While one run works on an instance, another is refused. Its lease expires by itself. C(/opt/sglang/NAME/lease.json)
    on the host names its holder. Removing that file breaks it.
seealso:
  - module: inferops.sglang.python_env
  - module: inferops.sglang.sglang_ready
"""

EXAMPLES = r"""
- name: One server in force and started
  inferops.sglang.sglang_server:
    instances:
      - name: kimi
        model_path: /shared/kimi-k2.5-int4
        lock: sglang-0.5.9-cu130
        patches: [kimi_k25_eagle3_delegation]
        args:
          tp_size: 8
          trust_remote_code: true
        speculative:
          draft_model_path: /data/eagle3/4
          num_steps: 2
          eagle_topk: 4
          num_draft_tokens: 16

- name: Why would it be restarted?
  inferops.sglang.sglang_server:
    instances: "{{ my_instances }}"
  check_mode: true
  register: server

- name: Take away one that the inventory does not describe any more
  inferops.sglang.sglang_server:
    instances: [{name: old}]
    state: absent

- name: Put back what served before
  inferops.sglang.sglang_server:
    instances: "{{ my_instances }}"
    state: restored
"""

RETURN = r"""
servers:
  description:
    - Each instance, in the order in which they were given; after a failure, those that did not fail.
    - Nothing with O(state=released), which looks at none.
  returned: success, or failure once something was touched
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance.
      type: str
      sample: kimi
    unit:
      description: Its systemd unit.
      type: str
      sample: sglang-kimi.service
    argv:
      description: The command of the server as described; empty while the build does not exist.
      type: list
      elements: str
    activation:
      description: Number of the newest activation.
      type: int
      sample: 3
    outcome:
      description: What became of it (V(pending) until the server was ready once, V(good), V(failed), V(restored)).
      type: str
      sample: good
    restart_needed:
      description: Whether the server that ran before this call was not the one described.
      type: bool
    restart_reasons:
      description: Why, in words.
      type: list
      elements: str
      sample: ["option --cuda-graph-max-bs: it runs with '64'; wanted with '128'"]
    main_pid:
      description: The server's main process.
      type: int
      sample: 4711
    active_since:
      description: When that process started, in seconds since the epoch.
      type: float
    adopted:
      description: Servers that were started by hand and were replaced, or would be.
      type: list
      elements: dict
deferred:
  description: What cannot be known yet.
  returned: success
  type: list
  elements: str
failures:
  description:
    - The instances that could not be brought to the state, each with its message. The others were, and are in
      RV(servers).
    - Where O(state) is V(started) or V(restarted) and one of them is described wrongly, none was touched.
  returned: failure
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance.
      type: str
    msg:
      description: What was found, what was wanted, and what to do.
      type: str
strangers:
  description: Servers on the port of an instance that this collection did not start.
  returned: failure because of them
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter
from ansible_collections.inferops.sglang.plugins.module_utils.server import lease, service, spec


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instances": spec.instances_option(),
            "state": {"type": "str", "choices": list(service.STATES), "default": "started"},
            "enabled": {"type": "bool", "default": True},
            "adopt": {"type": "bool", "default": False},
            "reject": {"type": "dict", "default": {}},
            "term": {"type": "int", "default": lease.TERM},
            "run": {"type": "dict", "options": lease.RUN},
        },
        supports_check_mode=True,
    )
    params = module.params

    def logic() -> dict[str, object]:
        plan, servers = service.run(
            adapter.runner_of(module),
            params["instances"],
            state=params["state"],
            enabled=params["enabled"],
            adopting=params["adopt"],
            holder=params["run"] or {"id": "by hand", "controller": "this host"},
            check_mode=module.check_mode,
            reject={name: int(number) for name, number in params["reject"].items()},
            term=params["term"],
        )
        return adapter.outcome(plan, servers=servers)

    adapter.finish(module, logic)


if __name__ == "__main__":
    main()
