"""The page about CUDA and GPUs says something of every case and every problem that is judged."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.inferops.sglang.plugins.module_utils.gpu import problems
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import run as preflight

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "troubleshooting-cuda.md").read_text()


def test_every_case_has_its_line() -> None:
    assert re.findall(r"^\| (F\d+) \|", PAGE, re.MULTILINE) == [f"F{number}" for number in range(1, 18)]


def test_every_case_has_a_test_that_bears_its_name() -> None:
    """``test_f8_f15_programs_…``: each of them can be detected, so there is no line that says why not."""
    sources = Path(__file__).resolve().parents[1].glob("*/test_*.py")
    names = [
        name for path in sources for name in re.findall(r"^def test((?:_[a-h]\d+)+)_", path.read_text(), re.MULTILINE)
    ]
    tested = {case for name in names for case in re.findall(r"f\d+", name)}
    assert tested == {f"f{number}" for number in range(1, 18)}


def test_every_problem_is_explained_and_none_that_is_not_judged() -> None:
    source = Path(problems.__file__).read_text()
    judged = set(re.findall(r'_problem\(\s*"(\w+)"', source)) | set(re.findall(r'\("(\w+)", (?:ERROR|WARNING)', source))
    section = PAGE.partition("## Problems that")[2].partition("\n## ")[0]
    explained = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert len(judged) > 15 and explained == judged


def test_the_checks_of_preflight_that_it_names_exist() -> None:
    rows = PAGE.partition("## Cases")[2].partition("\n## ")[0]
    clauses = re.findall(r"preflight(?:'s)?:? ((?:`\w+`(?:, )?)+)", rows)
    named = {name for clause in clauses for name in re.findall(r"`(\w+)`", clause)}
    assert len(named) > 8 and named <= {item.name for item in preflight.TABLE}
