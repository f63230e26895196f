#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: wheelhouse
short_description: Bring the wheels that a lock needs from the controller to a host
description:
  - Copies, from a folder on the controller, the wheels that a lock pins, and the newest wheel of uv, to a folder on the
    host, for hosts that reach no package index. M(inferops.sglang.python_env) takes them with O(ignore:find_links).
  - A transfer that was cut goes on where it was. Every part and every wheel is verified by its SHA-256.
  - Wheels on the host that the lock does not need are left alone.
version_added: 0.1.0
author:
  - The inferops.sglang authors (@inferops)
extends_documentation_fragment:
  - inferops.sglang.attributes
options:
  lock:
    description: The lock, as in M(inferops.sglang.python_env).
    type: str
    required: true
  src:
    description: The folder with the wheels, on the controller.
    type: path
    required: true
  dest:
    description: The folder on the host.
    type: path
    default: /opt/sglang/wheelhouse
  part_size:
    description: The size of a part in bytes, which is what is sent again after a cut.
    type: int
    default: 67108864
  wheels:
    description: Name, size and SHA-256 of each wheel. Set by the action plugin.
    type: list
    elements: dict
    suboptions:
      name:
        description: The file name.
        type: str
        required: true
      size:
        description: In bytes.
        type: int
        required: true
      sha256:
        description: The digest of the file.
        type: str
        required: true
  parts:
    description: Parts that came and lie on the host. Set by the action plugin.
    type: list
    elements: dict
    default: []
    suboptions:
      wheel:
        description: The name of the wheel.
        type: str
        required: true
      number:
        description: Which part it is, from 0.
        type: int
        required: true
      path:
        description: Where it lies.
        type: path
        required: true
      sha256:
        description: The digest of the part.
        type: str
        required: true
"""

EXAMPLES = r"""
- name: Bring the wheels of the lock
  inferops.sglang.wheelhouse:
    lock: sglang-0.5.23-cu130
    src: /srv/wheels

- name: Make the environment of them, with no way to the outside
  inferops.sglang.python_env:
    lock: sglang-0.5.23-cu130
    python: /usr/bin/python3.12
    find_links: [/opt/sglang/wheelhouse]
"""

RETURN = r"""
dest:
  description: The folder on the host.
  returned: success
  type: str
  sample: /opt/sglang/wheelhouse
wheels:
  description: The names of the wheels that the lock needs.
  returned: success
  type: list
  elements: str
  sample: [sglang-0.5.23-cp312-cp312-manylinux_2_34_x86_64.whl]
transferred:
  description: How many bytes were sent.
  returned: success
  type: int
  sample: 734003200
missing:
  description: The parts of each wheel that are not on the host; empty when all is there.
  returned: success
  type: dict
  sample: {}
deferred:
  description: What cannot be known yet.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter
from ansible_collections.inferops.sglang.plugins.module_utils.build import wheels


def main() -> None:
    wheel = {
        name: {"type": kind, "required": True} for name, kind in (("name", "str"), ("size", "int"), ("sha256", "str"))
    }
    part = {
        name: {"type": kind, "required": True}
        for name, kind in (("wheel", "str"), ("number", "int"), ("path", "path"), ("sha256", "str"))
    }
    module = AnsibleModule(
        argument_spec={
            "lock": {"type": "str", "required": True},
            "src": {"type": "path", "required": True},
            "dest": {"type": "path", "default": "/opt/sglang/wheelhouse"},
            "part_size": {"type": "int", "default": 64 << 20},
            "wheels": {"type": "list", "elements": "dict", "options": wheel},
            "parts": {"type": "list", "elements": "dict", "default": [], "options": part},
        },
        supports_check_mode=True,
    )
    adapter.finish(module, lambda: wheels.run(module.params, module.check_mode))


if __name__ == "__main__":
    main()
