#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: python_env
short_description: Make, prove and seal the Python environment of an SGLang server
description:
  - Makes a I(build), a Python environment with the packages of a lock and with patches applied, in its own folder
    below C(/opt/sglang/builds), proves that it holds together, and seals it with a manifest.
  - A build that is there and as it was sealed is left alone. One that was changed by hand is marked as quarantined,
    and another is made beside it; what runs in the old one goes on.
  - A build whose proof fails is removed. Nothing is put in force here; M(inferops.sglang.sglang_server) does that.
  - Packages come through uv, which is installed to C(/opt/sglang/tools) where it is not there. With O(find_links) and
    no O(indexes), nothing but those wheels is used.
version_added: 0.1.0
author:
  - The inferops.sglang authors (@inferops)
extends_documentation_fragment:
  - inferops.sglang.attributes
options:
  lock:
    description:
      - The name of a lock that comes with the collection, or a folder of yours with C(lock.yml) and
        C(requirements.txt), as a path or by its name beside the playbook or in its C(locks) folder.
    type: str
    required: true
  patches:
    description: Patches for SGLang, in order; names of the catalogue, or definitions written out.
    type: list
    elements: raw
    default: []
  python:
    description: The interpreter on the host that the environment is made with. Its version must be the lock's.
    type: path
    default: /usr/bin/python3
  indexes:
    description:
      - Addresses of package indexes to look in before the default one, in order.
      - A password in an address is shown nowhere.
    type: list
    elements: str
    default: []
  find_links:
    description: Folders on the host, or pages, with wheels.
    type: list
    elements: str
    default: []
  keep:
    description:
      - How many of the newest builds to keep besides those that are in use, which are a build with a live process in
        it and those of the last three activations of each instance. The others are removed.
    type: int
    default: 2
  waivers:
    description: Checks of the proof that may fail, besides those that the lock itself waives.
    type: list
    elements: dict
    default: []
    suboptions:
      check:
        description: The name of the check, as a failed proof shows it.
        type: str
        required: true
      reason:
        description: Why this is accepted.
        type: str
        required: true
  capabilities:
    description:
      - The compute capabilities that the kernels must serve, such as V(12.0); without the letters of compilers, so not
        V(sm_120a).
      - Without it, those of the GPUs that the host has.
    type: list
    elements: str
  verify:
    description:
      - Also read every file of a build that is already there, and prove it again.
      - It fails when the build is not as sealed, or when a check fails; it changes nothing then.
    type: bool
    default: false
  progress:
    description: A file that tells what is being done, a line a step. Set by the action plugin.
    type: path
  spec:
    description: The content of the lock and of the patches. Set by the action plugin.
    type: dict
"""

EXAMPLES = r"""
- name: Make the environment of the seed configuration
  inferops.sglang.python_env:
    lock: sglang-0.5.9-cu130
    patches: [kimi_k25_eagle3_delegation, sm120_symm_mem, sm120_multimem]
    python: /usr/bin/python3.12
    indexes: ["{{ pytorch_index }}", "{{ kernel_index }}"]
  register: built

- name: Make an environment on a host without a way out, from wheels that lie there
  inferops.sglang.python_env:
    lock: sglang-0.5.23-cu130
    python: /usr/bin/python3.12
    find_links: [/srv/wheelhouse]

- name: Read every file again and repeat the proof
  inferops.sglang.python_env:
    lock: sglang-0.5.23-cu130
    python: /usr/bin/python3.12
    verify: true
"""

RETURN = r"""
build_id:
  description: The name that follows from the lock, the patches and the Python version.
  returned: always
  type: str
  sample: sglang-0.5.23-cu130-1f6b3a0c9d2e
path:
  description: The folder of the sealed build. In check mode V(null) where it would have to be made.
  returned: success
  type: str
  sample: /opt/sglang/builds/sglang-0.5.23-cu130-1f6b3a0c9d2e.1
packages:
  description: The distributions of the build and their versions.
  returned: success
  type: dict
  sample: {sglang: 0.5.23, torch: 2.14.1}
patches:
  description: Each patch with its state, V(present) or V(not_needed), and the files that it changed.
  returned: success
  type: list
  elements: dict
  sample: [{name: sm120_symm_mem, state: not_needed, files: []}]
proof:
  description: What was checked before the build was sealed.
  returned: success, or a failed proof
  type: dict
  contains:
    checks:
      description: Each check with its C(name), C(ok), C(detail) and, where it was waived, the reason as C(waived).
      type: list
      elements: dict
      sample: [{name: "import:sgl_kernel", ok: true, detail: 3.2 s}]
removed:
  description: Builds that were, or in check mode would be, removed because nothing needs them.
  returned: success
  type: list
  elements: str
  sample: []
deferred:
  description: What cannot be known before the build exists.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter
from ansible_collections.inferops.sglang.plugins.module_utils.build import python_env


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "lock": {"type": "str", "required": True},
            "patches": {"type": "list", "elements": "raw", "default": []},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "indexes": {"type": "list", "elements": "str", "default": []},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "int", "default": 2},
            "waivers": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "check": {"type": "str", "required": True},
                    "reason": {"type": "str", "required": True},
                },
            },
            "capabilities": {"type": "list", "elements": "str"},
            "verify": {"type": "bool", "default": False},
            "progress": {"type": "path"},
            "spec": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(python_env.secrets(module.params))
    adapter.finish(module, lambda: python_env.run(module.params, adapter.runner_of(module), module.check_mode))


if __name__ == "__main__":
    main()
