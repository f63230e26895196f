#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Report the GPUs of a host, their driver, and what is wrong with them
version_added: 0.1.0
description:
  - Reads what C(nvidia-smi), C(/proc), C(/sys) and the device nodes say, and judges it.
  - A host without GPUs is a fact and no failure; RV(present) is then V(false).
  - Nothing is set. Persistence, clocks, power limits and ACS are reported only; the driver is never touched.
author:
  - The inferops.sglang authors (@inferops)
extends_documentation_fragment:
  - inferops.sglang.attributes.reader
options: {}
notes:
  - Run it as root. Another user does not see whose processes hold a GPU.
"""

EXAMPLES = r"""
- name: Look at the GPUs
  inferops.sglang.gpu_info:
  register: found

- name: Stop where a card is broken
  ansible.builtin.assert:
    that: found.problems | selectattr('severity', 'eq', 'error') | length == 0
    fail_msg: "{{ found.problems | map(attribute='message') | join('; ') }}"
"""

RETURN = r"""
present:
  description: Whether there is an NVIDIA GPU, driven or not.
  type: bool
  returned: success
pci:
  description: PCI addresses of the NVIDIA display and 3D controllers.
  type: list
  elements: str
  returned: success
container:
  description: The kind of container, V(null) on a whole machine. In one, the kernel module is the hypervisor's.
  type: str
  returned: success
  sample: lxc
driver_version:
  description: The driver's version.
  type: str
  returned: success
  sample: 580.159.04
kernel_module_version:
  description: The version of the loaded kernel module.
  type: str
  returned: success
  sample: 580.159.04
user_library_versions:
  description: The version of the user libraries, by path.
  type: dict
  returned: success
  sample: {/usr/lib/x86_64-linux-gnu/libcuda.so.1: 580.159.04}
cuda_driver_version:
  description: The newest CUDA release that the driver carries.
  type: str
  returned: success
  sample: "13.0"
nvidia_smi_error:
  description: What C(nvidia-smi) said when it failed or is missing.
  type: str
  returned: success
device_nodes:
  description: The device nodes with C(path), C(major), C(minor), C(mode) and the C(registered) major.
  type: list
  elements: dict
  returned: success
gpus:
  description: One entry for each GPU, in the order of their index (that of the PCI bus).
  type: list
  elements: dict
  returned: success
  contains:
    index: {description: Its index., type: int}
    uuid: {description: Its UUID., type: str}
    name: {description: The product's name., type: str}
    architecture: {description: The product's architecture., type: str}
    pci_bus_id: {description: Its PCI address., type: str}
    minor: {description: The minor number of its device node., type: int}
    compute_capability: {description: "Its compute capability, for example 12.0.", type: str}
    memory_total: {description: Bytes of memory., type: int}
    memory_used: {description: Bytes of memory in use., type: int}
    utilization: {description: Percent of the last sample in which a kernel ran., type: int}
    persistence: {description: Whether persistence mode is on., type: bool}
    mig: {description: Whether the card is divided., type: bool}
    virtualization: {description: How the card is virtualized., type: str}
    ecc: {description: "ECC mode, errors since the driver was loaded, repairs pending or failed.", type: dict}
    recovery_action: {description: What the driver asks for to recover the card., type: str}
    fabric: {description: State and status of the NVLink fabric., type: dict}
    pcie: {description: PCIe generation and width with their maximum., type: dict}
    clocks: {description: Clocks in MHz and what holds them down., type: dict}
    power: {description: Power limits and draw in watts., type: dict}
    temperature_c: {description: Temperature in degrees Celsius., type: int}
    processes:
      description: >-
        The processes that have the GPU open here, with C(pid), C(user), C(unit), C(cmd) (secrets hidden), C(orphan) and
        C(memory_used) in bytes.
      type: list
      elements: dict
    held_elsewhere:
      description: What holds the GPU outside this container (the driver's pids, which are none of ours).
      type: list
      elements: dict
unreachable:
  description: The cards that C(nvidia-smi) says do not answer, with C(pci_bus_id) and what is C(said).
  type: list
  elements: dict
  returned: success
topology:
  description: >-
    C(interconnect) (V(nvlink), V(mixed), V(pcie), V(single), or V(null) where it is not said), C(links) between the
    GPUs, C(numa) and C(cpus) of each.
  type: dict
  returned: success
acs_redirecting:
  description: PCIe bridges that redirect peer-to-peer traffic, V(null) where that cannot be read or there is one GPU.
  type: list
  elements: str
  returned: success
services:
  description: Fabric manager and persistence daemon by unit, with C(installed), C(state) and C(version).
  type: dict
  returned: success
xid:
  description: Xid events of this boot, from the kernel's log where it can be read.
  type: list
  elements: dict
  returned: success
problems:
  description: What is wrong, errors first, each with C(name), C(severity), C(message) and C(evidence).
  type: list
  elements: dict
  returned: success
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils.adapter import finish, runner_of
from ansible_collections.inferops.sglang.plugins.module_utils.gpu.facts import facts


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)

    def logic() -> dict[str, Any]:
        return {"changed": False, **facts(runner_of(module))}

    finish(module, logic)


if __name__ == "__main__":
    main()
