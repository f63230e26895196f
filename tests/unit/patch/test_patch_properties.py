"""Generated modules and generated edits: apply is idempotent, absent undoes it, and the rest stays byte for byte."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import patch_trees as trees
from ansible_collections.inferops.sglang.plugins.module_utils.patch.derive import derive
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = ("alpha", "beta", "hello", "bye")
COMMENTS = st.sampled_from(["", "  # plain", "  # ünïcode → ✓", '  # "quoted', "  # {[(", "  #"])
GAPS = st.sampled_from(["", "\n", "\n\n", "# between: }\n", "\n    # indented comment\n", "'''text\n  over lines'''\n"])


@st.composite
def methods(draw: Any, indent: str, unit: str) -> str:
    name = draw(st.sampled_from(NAMES))
    shape = draw(st.integers(0, 5))
    comment = draw(COMMENTS)
    if shape == 0:
        return f"{indent}def {name}(self): return 1{comment}\n"
    if shape == 1:
        return f"{indent}@property{comment}\n{indent}def {name}(self):\n{indent}{unit}return 'é'\n"
    if shape == 2:
        return f"{indent}if True:{comment}\n{indent}{unit}def {name}(self): pass\n"
    if shape == 3:
        return f'{indent}async def {name}(self):\n{indent}{unit}"""Doc.\n\n  {name}\n"""{comment}\n'
    if shape == 4:
        return f"{indent}{name} = (  # {name}\n1,\n{indent}){comment}\n"
    return f"{indent}class Inner:{comment}\n{indent}{unit}class Deeper: pass\n"


@st.composite
def classes(draw: Any, indent: str, unit: str) -> str:
    decorator = draw(st.sampled_from(["", f"{indent}@decorated\n", f"{indent}@deco(\n{indent}{unit}1)\n"]))
    head = draw(st.sampled_from(["class Greeter", "class Greeter(Base)", "class Greeter(\n  Base,\n )"]))
    if draw(st.integers(0, 3)) == 0:
        body = draw(st.sampled_from([" pass", " x = 1; y = 2", "  'doc'", " x = '''a\nb'''", " x = 1;"]))
        return f"{decorator}{indent}{head}:{body}{draw(COMMENTS)}\n"
    inner = indent + unit
    body = draw(st.lists(methods(inner, unit), min_size=1, max_size=3))
    return f"{decorator}{indent}{head}:{draw(COMMENTS)}\n{draw(GAPS)}".replace(
        "'''text\n  over lines'''\n", ""
    ) + "".join(body)


@st.composite
def dicts(draw: Any, indent: str, unit: str) -> str:
    name = draw(st.sampled_from(["LIMITS", "LIMITS: dict", "OTHER = LIMITS"]))
    if draw(st.integers(0, 7)) == 0:
        return f"{indent}LIMITS = dict(a=1){draw(COMMENTS)}\n"
    keys = draw(st.lists(st.sampled_from(["9", "10", "12", "'é'", "**more", "None"]), max_size=3))
    values = [
        draw(st.sampled_from(["[]", "(1)", "((1),)", "{2: 3}", '"# }"', "'''a\nb'''", "lambda: 0"])) for dummy in keys
    ]
    entries = [key if key.startswith("**") else f"{key}: {value}" for key, value in zip(keys, values, strict=True)]
    if draw(st.booleans()):
        comma = draw(st.sampled_from(["", ",", " , "])) if entries else ""
        return f"{indent}{name} = {{{', '.join(entries)}{comma}}}{draw(COMMENTS)}\n"
    lines = [f"{indent}{unit}{entry},{draw(COMMENTS)}\n" for entry in entries]
    if lines and draw(st.booleans()):
        lines[-1] = f"{indent}{unit}{entries[-1]}{draw(COMMENTS)}\n"
    tail = draw(st.sampled_from(["", f"{indent}{unit}# end, }}\n"]))
    return f"{indent}{name} = {{{draw(COMMENTS)}\n{''.join(lines)}{tail}{indent}}}\n"


@st.composite
def modules(draw: Any) -> bytes:
    unit = draw(st.sampled_from(["    ", "  ", "\t"]))
    head = draw(
        st.sampled_from(
            ["", "#!/usr/bin/python\n", '"""Doc é."""\n', "from __future__ import annotations\n", "import os; z = 1\n"]
        )
    )
    parts = [draw(GAPS)]
    for dummy in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from([classes, dicts]))
        if draw(st.integers(0, 3)) == 0:
            parts.append("if True:\n" + draw(kind(unit, unit)) + "else:\n" + draw(kind(unit, unit)))
        else:
            parts.append(draw(kind("", unit)))
        parts.append(draw(GAPS).replace("    #", "#"))
    text = (
        head
        + "".join(parts)
        + draw(st.sampled_from(["", "x = a or b\n", "def f():\n  return (a  # é\n    or b) and c\n"]))
    )
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", draw(st.sampled_from(["\r\n", "\r"])))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig"]))
    return text.encode(encoding)


CODE = '''# added: ünï
def bye(self, x: int = 1) -> str:
    """Say it."""
    return f"""{x}
end"""

@staticmethod
def late():
    pass
'''
EDITS = st.sampled_from(
    [
        {"add_methods": {"file": "a.py", "class": "Greeter", "code": CODE}},
        {"add_methods": {"file": "a.py", "class": "Greeter.Inner", "code": "def m(self):\n    pass\n"}},
        trees.add_entry(),
        trees.add_entry(value="{\n    2: 3,\n}"),
        {"extend_condition": {"file": "a.py", "condition": "a or b", "operator": "or", "operand": "g(x)"}},
        {"extend_condition": {"file": "a.py", "condition": "b", "operator": "and", "operand": "not c"}},
        {"add_import": {"file": "a.py", "code": "from typing import Any as Anything"}},
        {"replace": {"file": "a.py", "old": "x = 1", "new": "x = 1; w = 2", "count": 1}},
    ]
)


def is_python(data: bytes) -> bool:
    try:
        ast.parse(data)
    except SyntaxError:
        return False
    return True


@given(modules(), st.lists(EDITS, min_size=1, max_size=3))
@settings(max_examples=250, deadline=None)
def test_edits_are_idempotent_and_leave_the_rest_alone(data: bytes, edits: list[dict[str, Any]]) -> None:
    if not is_python(data):
        return
    work = [("p", trees.patch("p", edit)["edits"][0]) for edit in edits]
    once = derive(data, "a.py", work)
    if once.conflicts:
        assert all(once.conflicts.values())
        return
    twice = derive(once.data, "a.py", work)
    assert twice.conflicts == {} and twice.data == once.data and twice.parts["p"].added == 0
    compile(once.data, "a.py", "exec")
    assert is_subsequence(data, once.data), "bytes outside the edits were lost or changed"
    assert is_subset(data, once.data)
    if once.data != data:
        assert data.endswith((b"\n", b"\r")) == once.data.endswith((b"\n", b"\r")) or not data


def is_subsequence(before: bytes, after: bytes) -> bool:
    """Whether every byte of ``before`` stands in ``after``, in order; not the space before a one-line class body."""
    left = iter(after)
    return all(byte in left for byte in re.sub(rb": +", b":", before))


def is_subset(before: bytes, after: bytes) -> bool:
    """Whether every statement of the module means what it meant, or has only grown."""
    return len(ast.dump(ast.parse(before))) <= len(ast.dump(ast.parse(after)))


@given(modules(), st.lists(EDITS, min_size=1, max_size=2, unique_by=str))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_absent_undoes_present(tmp_path_factory: Any, data: bytes, edits: list[dict[str, Any]]) -> None:
    root: Path = tmp_path_factory.mktemp("tree")
    trees.site_packages(root, {"__init__.py": b"", "a.py": data})
    patches = [trees.patch(f"p{number}", edit) for number, edit in enumerate(edits)]
    before = trees.snapshot(root)
    answer = trees.apply(root, *patches)
    assert bool(answer["error"]) != (trees.plan(root, *patches)["error"] is None)
    if answer["error"]:
        assert trees.snapshot(root) == before
        return
    assert not trees.apply(root, *patches)["changed"]
    for one in reversed(patches):
        assert trees.apply(root, one, state="absent")["error"] is None
    assert trees.snapshot(root) == before and not (root / ".inferops-patch").exists()
