# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The attributes that every module documents; a module adds its own support values."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and say what would change, without changing anything.
    support: full
  diff_mode:
    description: Returns what changed, or would change, when in diff mode.
    support: full
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
  platform:
    description: The systems that the module runs on.
    platforms: linux
    support: full
  action_group:
    description: Use C(group/inferops.sglang.sglang) in C(module_defaults) to set options for all modules here.
    support: full
    membership:
      - inferops.sglang.sglang
"""

    # For modules that only read: there is nothing to show in a diff.
    READER = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode; it changes nothing in any mode.
    support: full
  diff_mode:
    description: Returns what changed, or would change, when in diff mode.
    support: N/A
    details: It changes nothing.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
  platform:
    description: The systems that the module runs on.
    platforms: linux
    support: full
  action_group:
    description: Use C(group/inferops.sglang.sglang) in C(module_defaults) to set options for all modules here.
    support: full
    membership:
      - inferops.sglang.sglang
"""
