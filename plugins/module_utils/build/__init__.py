# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The resource ``build``: a sealed Python environment made from a lock, patches and a proof.

``store`` finds builds and plans (it is on the path of every plan, so it stays small), ``snapshot`` compares files,
``make`` builds and seals, ``proof`` judges, ``prune`` removes what nothing needs.
"""

from __future__ import annotations
