# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which gateways stand in front of hosts, and which servers each of them is to have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import fleet

DOCUMENTATION = r"""
name: by_gateway
short_description: The gateways in front of hosts, each with the hosts whose servers it is to have
version_added: "0.1.0"
author: The inferops.sglang authors (@inferops)
description:
  - Reads C(sglang_gateway) of the hosts, the host of their gateway or a list of several.
  - Each gateway comes with all hosts of the inventory that stand behind it, also with those that were not asked for.
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  hosts:
    description: The hosts whose gateways are wanted.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Compare every gateway's list of workers
  inferops.sglang.gateway_plan:
    hosts: "{{ item.value }}"
  delegate_to: "{{ item.key }}"
  loop: "{{ hostvars | inferops.sglang.by_gateway(groups['sglang']) | dict2items }}"
"""

RETURN = r"""
_value:
  description: The hosts, by the host of their gateway.
  type: dict
"""


def by_gateway(hostvars: Mapping[str, Mapping[str, Any]], hosts: Sequence[str]) -> dict[str, list[str]]:
    """See DOCUMENTATION.

    :raises AnsibleFilterError: for a C(sglang_gateway) that is neither a name nor a list.
    """
    try:
        return fleet.by_gateway(hostvars, hosts)
    except InferopsError as error:
        raise AnsibleFilterError(error.message) from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"by_gateway": by_gateway}
