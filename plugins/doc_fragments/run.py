# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a module is told which run works on an instance."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  run:
    description:
      - The run that works on the instance. Its lease is taken or renewed.
      - Set by the action plugin; leave it out.
    type: dict
    suboptions:
      id:
        description: Name of the run.
        type: str
        required: true
      controller:
        description: Where it runs.
        type: str
        required: true
      break_id:
        description: A run that is known to be over, whose lease may be taken away.
        type: str
"""
