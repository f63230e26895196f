# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The GPUs of a host: observed and judged; processes on them are ended only by ``drain``."""
