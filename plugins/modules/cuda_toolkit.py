#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
---
module: cuda_toolkit
short_description: Install or adopt a CUDA toolkit beside others, and prove that it compiles
version_added: "0.1.0"
description:
  - Puts one CUDA toolkit in place, next to those that are there, and compiles a kernel with it for the compute
    capabilities that are wanted. A toolkit that does not compile fails the task and is tried again by the next run.
  - C(/usr/local/cuda) keeps leading where it did, unless O(default_link=set).
  - The driver is never touched. An installation that would touch it, or remove anything, is refused.
  - One toolkit of each minor release is managed.
author:
  - The inferops.sglang authors (@inferops)
extends_documentation_fragment:
  - inferops.sglang.attributes
options:
  source:
    description:
      - Where the toolkit comes from.
      - C(apt) is the vendor's repository, or a mirror in its layout. Its key is verified by fingerprint.
        The packages are pinned to one exact version and held.
      - C(wheels) are the vendor's Python wheels, arranged into a folder in the shape of a toolkit.
        No package of the system changes.
      - C(present) adopts what is there, and fails where it is not.
      - C(none) does nothing.
    type: str
    choices: [apt, wheels, present, none]
    required: true
  version:
    description:
      - A release (V(13.0.2)), or a minor release (V(13.0)), of which any update is right and the newest is installed.
      - Not needed with O(source=none).
    type: str
  path:
    description:
      - The toolkit's folder, by default C(/usr/local/cuda-) and the minor release.
      - With O(source=apt) it is where the packages put it.
    type: path
  default_link:
    description: Whether C(/usr/local/cuda) shall lead to this toolkit (V(set)) or stays as it is (V(keep)).
    type: str
    choices: [keep, set]
    default: keep
  components:
    description:
      - The parts to install with O(source=wheels), by the names of the extras of the package C(cuda-toolkit).
      - The compiler's own parts come with V(nvcc), pinned to the same minor release.
    type: list
    elements: str
    default: [nvcc, cudart, nvrtc, cccl, cublas, curand]
  capabilities:
    description: The compute capabilities that the toolkit must compile for.
    type: list
    elements: str
    default: ["9.0", "12.0"]
  state:
    description:
      - V(absent) removes what this module installed. An adopted toolkit is only forgotten.
    type: str
    choices: [present, absent]
    default: present
  repository:
    description:
      - The repository for O(source=apt), by default the vendor's for this distribution.
      - Credentials belong into C(/etc/apt/auth.conf.d).
    type: str
  key:
    description:
      - File on the host, or address, of the repository's key, by default C(3bf863cc.pub) in the repository.
    type: str
  key_fingerprint:
    description: The fingerprint of the one key that is trusted, by default that of the vendor's CUDA repositories.
    type: str
    default: EB693B3035CD5710E231E123A4B469963BF863CC
  indexes:
    description: Extra package indexes for O(source=wheels), in order.
    type: list
    elements: str
    default: []
  find_links:
    description:
      - Folders or pages of wheels for O(source=wheels). With these and no O(indexes), nothing else is asked.
    type: list
    elements: str
    default: []
notes:
  - It needs root, gcc and g++ on the host.
"""

EXAMPLES = r"""
- name: CUDA 13.0 from the vendor's repository, beside whatever is there
  inferops.sglang.cuda_toolkit:
    source: apt
    version: "13.0"

- name: One exact release from a folder of wheels, on a host with no way out
  inferops.sglang.cuda_toolkit:
    source: wheels
    version: "13.0.2"
    find_links: [/srv/wheelhouse]

- name: Adopt what the image brought, for H200 only
  inferops.sglang.cuda_toolkit:
    source: present
    version: "13.0"
    path: /usr/local/cuda-13.0
    capabilities: ["9.0"]
"""

RETURN = r"""
home:
  description: The toolkit's folder, what C(CUDA_HOME) of a server shall be.
  type: str
  returned: when O(source) is not V(none)
  sample: /usr/local/cuda-13.0
version:
  description: The toolkit's release, V(null) where there is none.
  type: str
  returned: when O(source) is not V(none)
  sample: 13.0.2
driver:
  description: >-
    The loaded driver's C(version) (V(null) where there is none), the C(minimum) for this CUDA release, and what is
    wrong with it, if anything, in C(judgement); that is a warning too.
  type: dict
  returned: when O(source) is not V(none)
  sample: {version: 580.159.04, minimum: "580", judgement: null}
nvcc_version:
  description: The compiler's own version.
  type: str
  returned: when the toolkit is there
  sample: 13.0.88
smoke:
  description: What the toolkit is proved for, in C(capabilities).
  type: dict
  returned: when the toolkit is there
  sample: {capabilities: ["9.0", "12.0"]}
packages:
  description: The packages or wheels that the toolkit came from, with their versions.
  type: dict
  returned: when the toolkit is there
default_link:
  description: Where C(/usr/local/cuda) leads, V(null) where it is not there.
  type: str
  returned: success
installed:
  description: All toolkits of the host, with C(path), C(version), C(managed) and C(default).
  type: list
  elements: dict
  returned: always
deferred:
  description: What cannot be known yet.
  type: list
  elements: str
  returned: success
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils.adapter import finish, outcome, runner_of
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit.desired import (
    CAPABILITIES,
    COMPONENTS,
    KEY_FINGERPRINT,
    SOURCES,
    parse,
)
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit.manage import manage, summary


def main() -> None:
    words = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "choices": ["apt", "wheels", "present", "none"], "required": True},
            "version": {"type": "str"},
            "path": {"type": "path"},
            "default_link": {"type": "str", "choices": ["keep", "set"], "default": "keep"},
            "components": {**words, "default": list(COMPONENTS)},
            "capabilities": {**words, "default": list(CAPABILITIES)},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "repository": {"type": "str"},
            "key": {"type": "str", "no_log": False},
            "key_fingerprint": {"type": "str", "default": KEY_FINGERPRINT, "no_log": False},
            "indexes": {**words, "default": []},
            "find_links": {**words, "default": []},
        },
        required_if=[("source", source, ["version"]) for source in SOURCES if source != "none"],
        supports_check_mode=True,
    )

    def logic() -> dict[str, Any]:
        desired = parse(module.params)
        plan, observed = manage(desired, runner_of(module), module.check_mode)
        found = summary(observed, desired)
        if found.get("driver", {}).get("judgement"):
            module.warn(found["driver"]["judgement"])
        return outcome(plan, **found)

    finish(module, logic)


if __name__ == "__main__":
    main()
