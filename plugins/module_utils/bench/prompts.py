# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The shipped prompts: short everyday requests of different kinds. Real traffic of yours is better: give prompts."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence

SHIPPED = (
    "Write a Python function that merges two sorted lists, and explain its running time.",
    "Explain to a new colleague why a database index makes some queries faster and some writes slower.",
    "Summarise the causes of the 1908 Messina earthquake and its consequences in two paragraphs.",
    "Translate into German: the meeting was moved to Thursday because two of us are travelling.",
    "Plan a three-day walking tour in a hilly region for four people who have no tents.",
    "Write an SQL query that lists the ten customers with the largest turnover in each country.",
    "What should I check first when a service answers slowly only on Monday mornings?",
    "Write a polite letter to a landlord about a heating that has been broken for a week.",
)


def fresh(prompts: Sequence[str], count: int) -> list[str]:
    """``count`` prompts that no cache has seen: each begins with words of its own."""
    return [f"[{uuid.uuid4().hex[:12]}] {prompt}" for prompt in itertools.islice(itertools.cycle(prompts), count)]
