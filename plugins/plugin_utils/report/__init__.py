# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a look at a fleet came to: for machines (``drift``, ``metrics``), for people (``text``, ``page``), and its
history. Everything works from the one JSON value that ``drift.build`` makes; docs/drift.md describes it."""
