# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Whether two versions of a distribution are one, however they are spelled (PEP 440, "Normalization")."""

from __future__ import annotations

import re

_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|rc|c)[-_.]?(?P<pre_n>\d*))?"
    r"(?:-(?P<post_dash>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?\Z"
)
_PHASES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def public(version: str) -> str:
    """A version without its local part (``+cu130``)."""
    return version.partition("+")[0]


def same_version(found: str, wanted: str) -> bool:
    """Whether two versions are one; a local version (``+cu130``) counts only where both have one.

    Makers leave it out of the METADATA of a wheel whose file name has it.
    """
    locals_differ = "+" in found and "+" in wanted and _local(found) != _local(wanted)
    return not locals_differ and _canonical(public(found)) == _canonical(public(wanted))


def _canonical(version: str) -> tuple[object, ...]:
    """What two spellings of one version have in common; a text that is no version has only itself."""
    match = _VERSION.match(version.strip().lower())
    if match is None:
        return (version,)
    numbers = [int(part) for part in match["release"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    pre = match["pre"] and (_PHASES.get(match["pre"], match["pre"]), int(match["pre_n"] or 0))
    post = int(match["post_dash"] or match["post_n"] or 0) if match["post_dash"] or match["post"] else None
    dev = int(match["dev_n"] or 0) if match["dev"] else None
    return (int(match["epoch"] or 0), tuple(numbers), pre, post, dev)


def _local(version: str) -> list[str]:
    return re.split(r"[-_.]", version.partition("+")[2].lower())
