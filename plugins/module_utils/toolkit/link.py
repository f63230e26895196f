# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""/usr/local/cuda, the default toolkit of a host: other programs rely on it, so it moves only when asked to.

The vendor's packages manage it with update-alternatives, which moves it on each installation while the alternative is
in automatic mode; run files and people make a plain link.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InferopsError
from ..running import Runner, check
from .state import DEFAULT_LINK, default_link

NAME = "cuda"
_ALTERNATIVE = "/etc/alternatives/cuda"
_ENV = {"LC_ALL": "C"}


def lead(runner: Runner, path: str) -> None:
    """Make the default link lead to ``path``.

    :raises InferopsError: when a real folder stands in its place.
    """
    if os.path.isdir(DEFAULT_LINK) and not os.path.islink(DEFAULT_LINK):
        raise InferopsError(
            f"{DEFAULT_LINK} is a folder and no link, so it cannot be led to {path}: move it to the name of its "
            "version (/usr/local/cuda-12.8, say), or leave default_link at 'keep'"
        )
    if _alternative():
        priority = re.sub(r"\D", "", os.path.basename(path)) or "1"
        check(
            runner,
            ["update-alternatives", "--install", DEFAULT_LINK, NAME, path, priority],
            f"registering {path} as an alternative of {DEFAULT_LINK}",
            env=_ENV,
        )
        check(runner, ["update-alternatives", "--set", NAME, path], f"leading {DEFAULT_LINK} to {path}", env=_ENV)
    else:
        _replace(path)


@contextmanager
def kept(runner: Runner) -> Iterator[None]:
    """While packages are installed or removed inside, and after: the link leads where it did, if it was there."""
    target = default_link()
    text = os.readlink(DEFAULT_LINK) if os.path.islink(DEFAULT_LINK) else None
    if target is not None and _alternative():
        # manual mode: a package's own registration does not move it, not even for a moment
        check(runner, ["update-alternatives", "--set", NAME, target], f"keeping {DEFAULT_LINK} at {target}", env=_ENV)
    yield
    if target is not None and text is not None and default_link() != target:
        if text != _ALTERNATIVE:
            _replace(text)
        elif os.path.isdir(target):
            check(runner, ["update-alternatives", "--set", NAME, target], f"leading {DEFAULT_LINK} back", env=_ENV)


def forget(path: str) -> None:
    """Remove a plain default link that leads to a toolkit which is about to go."""
    if os.path.islink(DEFAULT_LINK) and not _alternative() and default_link() == os.path.realpath(path):
        os.unlink(DEFAULT_LINK)


def _alternative() -> bool:
    return os.path.islink(DEFAULT_LINK) and os.readlink(DEFAULT_LINK) == _ALTERNATIVE


def _replace(target: str) -> None:
    temporary = f"{DEFAULT_LINK}.{os.getpid()}"
    os.symlink(target, temporary)
    os.replace(temporary, DEFAULT_LINK)
