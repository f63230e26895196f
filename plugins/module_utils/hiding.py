# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What is found on a host may hold a secret that Ansible does not know, for nobody described it: told by its name."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # see files.py
if TYPE_CHECKING:
    from collections.abc import Iterable

HIDDEN = "********"
AS_FOUND, AS_DESCRIBED = "(secret, as found)", "(secret, as described)"
_NAME = r"(?:secret|passw|credential|(?<![a-z])(?:key|token)(?![a-z]|-map))"
#: Names of what has a secret for a value; ``--tokenizer-path`` and ``--ssl-keyfile`` are none.
SECRET = re.compile(_NAME, re.IGNORECASE)
_ASSIGNED = re.compile(rf"""([\w-]*{_NAME}[\w-]*(?:\s*[=:]\s*|[ \t]+))("[^"\n]*"|'[^'\n]*'|[^\s"']+)""", re.IGNORECASE)


def redacted(words: Iterable[str]) -> list[str]:
    """A command line without the values of options that look like secrets (``--api-key X``, ``--api-key=X``)."""
    shown: list[str] = []
    hide = False
    for word in words:
        name, equals, dummy = word.partition("=")
        if hide and not word.startswith("--"):
            word = HIDDEN
        elif equals and SECRET.search(name):
            word = f"{name}={HIDDEN}"
        shown.append(word)
        hide = word.startswith("-") and not equals and SECRET.search(word) is not None
    return shown


def lines(text: str | None, other: str | None, label: str) -> str | None:
    """The text of a unit or an environment file, with ``label`` in place of what looks like a secret and is not in the
    same line of ``other``.

    >>> lines("A=1\\nHF_TOKEN=x\\n", "A=2\\n", AS_FOUND)
    'A=1\\nHF_TOKEN=(secret, as found)\\n'
    """
    if text is None:
        return None
    same = set((other or "").splitlines())
    return "".join(
        line if line.rstrip("\n") in same else _ASSIGNED.sub(lambda match: match[1] + label, line)
        for line in text.splitlines(keepends=True)
    )
