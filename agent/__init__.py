# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The host agent: what stays on a host and runs without Ansible. One zip application, see ``agent_archive``."""
