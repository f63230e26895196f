# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory's instances, by name and with overrides, as the list that modules take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired

DOCUMENTATION = r"""
name: instance_list
short_description: The inventory's SGLang instances as the list that modules take
version_added: "0.1.0"
author: The inferops.sglang authors (@inferops)
description:
  - Turns the dictionary C(sglang_instances) of an inventory into a list, each instance with its name, with the
    overrides of a host or group merged in.
options:
  _input:
    description: The instances, by name.
    type: dict
    required: true
  override:
    description: Merged deeply into the instances, by name; mappings are merged, everything else replaces.
    type: dict
    default: {}
  only:
    description: Keep these instances alone; all of them where it is empty.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: One NCCL variable differs on this host
  inferops.sglang.sglang_plan:
    instances: "{{ sglang_instances | inferops.sglang.instance_list(override=here) }}"
  vars:
    here:
      kimi:
        env:
          NCCL_P2P_LEVEL: SYS
"""

RETURN = r"""
_value:
  description: The instances.
  type: list
  elements: dict
"""


def instance_list(
    described: Mapping[str, Any], override: Mapping[str, Any] | None = None, only: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """See DOCUMENTATION.

    :raises AnsibleFilterError: for a name that is not described.
    """
    try:
        return desired.instances(described, override, only)
    except InferopsError as error:
        raise AnsibleFilterError(error.message) from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"instance_list": instance_list}
