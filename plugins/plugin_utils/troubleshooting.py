# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
r"""Writes docs/troubleshooting.md from the tables that the modules diagnose by.

python -m plugins.plugin_utils.troubleshooting > docs/troubleshooting.md
"""

from __future__ import annotations

import sys

from ansible_collections.inferops.sglang.plugins.module_utils.readiness import categories as cat
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import signatures as sig
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.exceptions import EXCEPTIONS
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.signature import Signature

_KINDS = (
    (cat.CONFIGURATION, "Configuration: wrong until it is corrected"),
    (cat.BUILD, "The environment of Python packages: rebuild it"),
    (cat.ENVIRONMENT, "The host and what is around it: may be better at the next try"),
    (cat.CRASH, "Crashes"),
    (cat.HANG, "Hangs"),
    (cat.STOP, "Not a failure"),
    (cat.UNKNOWN, "Nothing known"),
    (cat.PROGRESS, "On the way"),
)

_HEAD = """\
# Troubleshooting

`sglang_ready`, `sglang_log_info` and the host agent (`status`, `diagnose`) name what is the matter with a server by one
of the categories below, together with the line of its log that is the cause. This page is generated from the table
that they use (`plugins/plugin_utils/troubleshooting.py`); installing CUDA and drivers has
[a page of its own](troubleshooting-cuda.md).

To have a log judged:

```
ansible HOST -m inferops.sglang.sglang_log_info -a 'instance=NAME'
ansible HOST -m inferops.sglang.sglang_log_info -a 'path=/tmp/server.log unit_state=dead:signal=KILL'
```

How a cause is chosen: the first root exception by rank wins; what one rank says about another ("could finish the model
loading, but there are other ranks …", a connection that a peer closed, `Received sigquit`) never does, and neither does
the last line. Status 137 says nothing by itself: SGLang ends itself by SIGKILL after a clean stop too. Import errors of
models that are not served, the dump of the arguments, and health checks that fail while batches go on are no failures.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for kind, title in _KINDS:
        names = sorted(name for name, category in cat.CATEGORIES.items() if category.kind == kind)
        parts.append(f"## {title}\n")
        parts += [_entry(name) for name in names]
    return "\n".join(parts)


def _entry(name: str) -> str:
    category = cat.CATEGORIES[name]
    lines = [f"### `{name}`", "", f"**Looks like:** {category.looks}", "", f"**Do:** {category.advice}", ""]
    ranges = sorted({text for signature in (*EXCEPTIONS, *sig.LINES) for text in _range(signature, name)})
    if ranges:
        lines += ["**Words by release:** " + "; ".join(ranges) + ".", ""]
    return "\n".join(lines)


def _range(signature: Signature, name: str) -> list[str]:
    """Where the words are those of certain releases only."""
    if signature.category != name or not (signature.since or signature.until):
        return []
    span = f"from {signature.since}" if signature.since else f"up to {signature.until}"
    return [f"`{signature.source[0].strip()} …` {span}"]


if __name__ == "__main__":
    sys.stdout.write(page())
