"""What a plan that finds nothing to build and nobody to adopt has to load: every host pays for it in every run."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout

#: Lines of code: a module travels as source and is compiled anew in every run, and that is what its lines cost. Blank
#: lines, comments and documentation are passed over in no time.
BUDGET = 2500
PACKAGE = "ansible_collections.inferops.sglang."
_NO_CODE = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
)  # fmt: skip
#: Needed on a host that is not as described or has more to compare, and by other modules.
NOT_LOADED = (
    "server.adopt", "server.force", "server.service", "server.verdict", "toolkit", "interpreter", "patch", "preflight",
    "readiness",
)  # fmt: skip

# The module as Ansible runs it, on the folders of the test; then the files of ours that it loaded.
_RUN = """
import json, sys
told = json.loads(sys.argv[1])
sys.path[:0] = told["path"]
from ansible_collections.inferops.sglang.plugins.module_utils import layout
for name, path in told["layout"].items():
    setattr(layout, name, path)
from ansible.module_utils.testing import patch_module_args
with patch_module_args(told["args"]):
    from ansible_collections.inferops.sglang.plugins.modules import sglang_plan
    try:
        sglang_plan.main()
    except SystemExit:
        pass
files = {name: module.__file__ for name, module in sys.modules.items() if name.startswith(told["package"])}
print(json.dumps({name: file for name, file in files.items() if file}))
"""


def code_lines(file: str) -> int:
    """The lines of a file that hold code."""
    source = Path(file).read_text(encoding="utf-8")
    told = [node for node in ast.walk(ast.parse(source)) if _tells(node)]
    passed_over = {line for node in told for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    held = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    return len(held - passed_over)


def _tells(node: ast.AST) -> bool:
    """Whether a statement is documentation: a docstring, or one of a module's three texts."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id in ("DOCUMENTATION", "EXAMPLES", "RETURN")
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@pytest.fixture
def server() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]) as child:
        yield child.pid
        child.kill()


def test_a_plan_loads_little(host: Path, build: dict[str, Any], user: str, server: int) -> None:
    programs = host / "bin"
    programs.mkdir()
    systemctl = programs / "systemctl"
    systemctl.write_text(f"#!/bin/sh\necho 'LoadState=loaded\nActiveState=active\nMainPID={server}'\n")
    systemctl.chmod(0o755)
    names = ("ROOT", "BUILDS", "AGENT", "ETC", "UNITS", "STATE", "LOGS", "RUN")
    instance = {"name": "kimi", "model_path": "/m", "run_as": user, "build": build, "agent": {"version": "0" * 16}}
    told = {
        "path": [path for path in sys.path if path.endswith("collections")],
        "package": PACKAGE,
        "layout": {name: getattr(layout, name) for name in names},
        "args": {"instances": [instance], "agent_version": "0" * 16},
    }
    done = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps(told)],
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result, files = (json.loads(line) for line in done.stdout.splitlines() if line)
    assert "failed" not in result, result
    assert result["observed"]["instances"]["kimi"]["main_pid"] == server
    inside = PACKAGE + "plugins."
    lines = {name[len(inside) :]: code_lines(file) for name, file in files.items() if name.startswith(inside)}
    assert "module_utils.server.process" in lines
    assert not [name for name in lines if name.removeprefix("module_utils.").startswith(NOT_LOADED)]
    assert sum(lines.values()) <= BUDGET, dict(sorted(lines.items(), key=lambda item: -item[1]))
