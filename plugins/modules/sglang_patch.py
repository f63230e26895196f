#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_patch
short_description: Patch an installed SGLang in place, or take patches out
version_added: 0.1.0
description:
  - Brings structural patches into an environment or a checkout that its owner keeps, or restores the files byte for
    byte.
  - Whether a patch is there is decided from the syntax tree, so a release that has the change needs none, and what
    somebody has done by hand is recognised and not done twice.
  - All files and patches of a call are changed, or none. Files are replaced, never written through a link.
  - Every file of the release is compared with what it was released as (the wheel's C(RECORD), or the commit of a
    checkout).
  - Builds that M(inferops.sglang.python_env) has sealed are refused. Their patches belong to the description of the
    instance.
options:
  target:
    description:
      - A folder that holds the package C(sglang) (a C(site-packages), a checkout or its folder C(python)), or the
        Python interpreter of the environment that SGLang is installed in.
      - With an interpreter, editable installations and packages in other folders are found, and the files are parsed
        by the Python that runs them.
    type: path
    required: true
  patches:
    description:
      - What to bring in or to take out. Each is the name of a shipped patch, the path of a YAML file on the controller
        (absolute, or relative to the playbook or its folder C(files)), or a definition itself.
      - The form of a definition is described in C(docs/patches.md).
    type: list
    elements: raw
    required: true
  state:
    description:
      - V(present) brings the patches in. Patches of earlier calls stay.
      - V(absent) takes them out. A file that no other patch concerns gets its released text back.
    type: str
    choices: [present, absent]
    default: present
  allow_foreign:
    description: Patch files that somebody has edited for another reason, too. Their edits are kept.
    type: bool
    default: false
  verify_import:
    description:
      - Before anything is written, let the Python of O(target) import the patched modules and look for what was
        promised.
      - This imports torch, and takes its time. A module that could not be imported before the patch either, because
        something that it needs is not installed, is reported in RV(unverified) and no failure.
    type: bool
    default: false
  pristine:
    description:
      - A wheel of the installed release on the host. It is needed only to take out what was patched by hand, and its
        files are used only where they are what C(RECORD) says.
    type: path
extends_documentation_fragment:
  - inferops.sglang.attributes
author:
  - The inferops.sglang authors (@inferops)
"""

EXAMPLES = r"""
- name: Make Kimi-K2.5 of SGLang 0.5.9 ready for EAGLE-3
  inferops.sglang.sglang_patch:
    target: /root/ml-env/bin/python
    patches: [kimi_k25_eagle3_delegation, deepseek_eagle3_aux_after_allreduce]

- name: A patch of one's own, in the playbook
  inferops.sglang.sglang_patch:
    target: /root/sglang
    patches:
      - name: longer_health_timeout
        title: The health check waits longer for the detokenizer
        why: Long chunked prefills answer 503 and look dead.
        edits:
          - replace:
              file: srt/entrypoints/http_server.py
              count: 1
              old: HEALTH_CHECK_TIMEOUT = int(os.getenv("SGLANG_HEALTH_CHECK_TIMEOUT", 20))
              new: HEALTH_CHECK_TIMEOUT = int(os.getenv("SGLANG_HEALTH_CHECK_TIMEOUT", 60))

- name: Take a patch out again
  inferops.sglang.sglang_patch:
    target: /root/ml-env/bin/python
    patches: [sm120_symm_mem]
    state: absent
"""

RETURN = r"""
release:
  description: The release of SGLang in the target; null where it names none (a checkout without tags).
  returned: success
  type: str
  sample: 0.5.9
patches:
  description: One entry for each patch that was asked for.
  returned: always, once the target is known
  type: list
  elements: dict
  contains:
    name:
      description: Name of the patch.
      type: str
    state:
      description: V(present), V(absent), V(not_needed) (the release has it, or has no use for it) or V(conflict).
      type: str
    was:
      description: The same before this call; V(drifted) where a patched file had been changed since.
      type: str
    by:
      description: Who put it there, V(inferops) or V(other hand); empty where it is not there.
      type: str
    files:
      description: Files that it concerns, below the folder that holds the package.
      type: list
      elements: str
    notes:
      description: Remarks, and the reasons of a conflict.
      type: list
      elements: str
    digest:
      description: SHA-256 of what the definition does.
      type: str
  sample:
    - name: kimi_k25_eagle3_delegation
      state: present
      was: absent
      by: inferops
      files: [sglang/srt/models/kimi_k25.py]
      notes: []
      digest: 102fabd480b74d2425ba840737fa989b6f1ba617a02a0ab00925248d6466109b
integrity:
  description: Files that differ from the release and that no patch explains.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: The file, below the folder that holds the package.
      type: str
    problem:
      description: V(changed), V(missing) or V(added).
      type: str
  sample:
    - path: sglang/srt/models/llama.py
      problem: changed
unverified:
  description: With O(verify_import), patched modules that could not be imported, before the patch neither.
  returned: success
  type: list
  elements: str
  sample: ["sglang.srt.entrypoints.grpc_server cannot be imported: ModuleNotFoundError: No module named 'grpc'"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils.adapter import finish, runner_of
from ansible_collections.inferops.sglang.plugins.module_utils.patch import in_place


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "target": {"type": "path", "required": True},
            "patches": {"type": "list", "elements": "raw", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "allow_foreign": {"type": "bool", "default": False},
            "verify_import": {"type": "bool", "default": False},
            "pristine": {"type": "path"},
        },
        supports_check_mode=True,
    )
    options = dict(module.params)
    wish = in_place.Wish(definitions=options.pop("patches"), **options)
    finish(module, lambda: in_place.bring(runner_of(module), wish, module.check_mode))


if __name__ == "__main__":
    main()
