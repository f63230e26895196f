# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""How the logic runs other programs: through a runner that its caller injects.

In a module the runner is ``AnsibleModule.run_command`` (see ``adapter``); in the host agent and in tests it is
``subprocess``. Commands are always lists of arguments, never shell strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .errors import InferopsError


@dataclass(frozen=True)
class Completed:
    """What a program left behind. ``rc`` is negative for a signal, as ``subprocess`` counts."""

    rc: int
    stdout: str
    stderr: str


class Runner(Protocol):
    def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        data: str | None = None,
    ) -> Completed:
        """Run ``argv`` to its end. ``env`` is added to the environment; ``data`` goes to standard input.

        A program that does not exist gives ``rc`` 127 and says so in ``stderr``; nothing is raised.
        """


def check(runner: Runner, argv: Sequence[str], doing: str, **kwargs: object) -> str:
    """Run ``argv`` and return its standard output.

    :raises InferopsError: when it ends with another status than 0; the message begins with ``doing``.
    """
    done = runner(argv, **kwargs)  # type: ignore[arg-type]
    if done.rc != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing was printed").splitlines()
        raise InferopsError(
            f"{doing} failed: {argv[0]} ended with status {done.rc}: {said[-1]}",
            cmd=list(argv),
            rc=done.rc,
            stderr="\n".join(said[-40:]),
        )
    return done.stdout
