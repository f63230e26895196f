# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The resource ``toolkit``: a CUDA toolkit beside others.

``state`` observes and plans without running a program (every plan of a host imports it); ``manage`` applies.
"""
