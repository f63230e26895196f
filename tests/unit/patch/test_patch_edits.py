"""Each kind of edit on small files: what it adds, what it takes for done, and what it refuses."""

from __future__ import annotations

import ast
from typing import Any

import patch_trees as trees
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.patch.derive import derive


def after(text: str | bytes, edit: dict[str, Any], name: str = "a.py") -> str:
    """The text after one edit; a conflict fails the test."""
    raw = text.encode() if isinstance(text, str) else text
    derived = derive(raw, name, [("p", trees.patch("p", edit)["edits"][0])])
    assert derived.conflicts == {}
    return derived.data.decode()


def refusal(text: str, edit: dict[str, Any]) -> str:
    derived = derive(text.encode(), "a.py", [("p", trees.patch("p", edit)["edits"][0])])
    assert list(derived.conflicts) == ["p"]
    return derived.conflicts["p"]


def dict_after(literal: str, **fields: Any) -> str:
    return after(f"LIMITS = {literal}\n", trees.add_entry(**fields)).removeprefix("LIMITS = ").rstrip("\n")


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ("{}", "{12: []}"),
        ("{ }", "{12: [] }"),
        ("{9: 1}", "{9: 1, 12: []}"),
        ("{9: 1,}", "{9: 1, 12: []}"),
        ("{9: (1)}", "{9: (1), 12: []}"),
        ("{9: ((1)) , }", "{9: ((1)) , 12: [] }"),
        ("{**other}", "{**other, 12: []}"),
        ("{\n    9: 1,\n}", "{\n    9: 1,\n    12: [],\n}"),
        ("{\n    9: 1\n}", "{\n    9: 1,\n    12: [],\n}"),
        ("{\n    9: 1  # nine\n}", "{\n    9: 1,  # nine\n    12: [],\n}"),
        ("{\n    9: 1,  # nine, }\n    # end\n}", "{\n    9: 1,  # nine, }\n    12: [],\n    # end\n}"),
        ("{\n\t9: 1,\n}", "{\n\t9: 1,\n\t12: [],\n}"),
        ("{9: 1,\n 10: 2}", "{9: 1,\n 10: 2, 12: []}"),
        ("{\n}", "{\n    12: [],\n}"),
        ("{  # none yet\n}", "{  # none yet\n    12: [],\n}"),
        ("{\n    9: (\n        1\n    ),\n}", "{\n    9: (\n        1\n    ),\n    12: [],\n}"),
        ("{\n    **other,\n}", "{\n    **other,\n    12: [],\n}"),
    ],
)
def test_a_dict_entry_goes_behind_the_last(before: str, wanted: str) -> None:
    assert dict_after(before) == wanted


def test_a_value_of_several_lines_is_indented_as_its_neighbours() -> None:
    text = dict_after("{\n        9: 1,\n    }", value="{\n    2: 3,  # three\n}\n")
    assert text == "{\n        9: 1,\n        12: {\n            2: 3,  # three\n        },\n    }"


def test_a_dict_of_a_class_and_one_in_a_condition() -> None:
    edit = {"add_dict_entry": {"file": "a.py", "dict": "C.LIMITS", "key": 12, "value": "[]"}}
    text = after("class C:\n    if True:\n        LIMITS: dict = {9: 1}\n    else:\n        LIMITS = {}\n", edit)
    assert (
        text == "class C:\n    if True:\n        LIMITS: dict = {9: 1, 12: []}\n    else:\n        LIMITS = {12: []}\n"
    )


def test_an_entry_that_is_there_is_not_doubled() -> None:
    for text in ("LIMITS = {12: []}\n", "LIMITS = {}\nLIMITS[12] = []\n", "LIMITS = {0xC: [ ]}\n"):
        assert after(text, trees.add_entry()) == text


def test_an_entry_with_another_value_is_kept_unless_the_patch_demands_its_own() -> None:
    text = "LIMITS = {12: [8]}\n"
    assert after(text, trees.add_entry()) == text
    assert "LIMITS[12] is there with another value (line 1): [8]" in refusal(text, trees.add_entry(exact=True))


def test_a_dict_that_is_no_literal_is_refused() -> None:
    assert "LIMITS is not given as a literal (line 1)" in refusal("LIMITS = dict(a=1)\n", trees.add_entry())
    assert "has no dict LIMITS" in refusal("OTHER = {}\n", trees.add_entry())


def test_methods_go_behind_the_last_statement_with_comments_and_decorators() -> None:
    code = "# on the way out\n@property\ndef bye(self):\n    return 1\n\ndef late(self):\n    return 2\n"
    edit = {"add_methods": {"file": "a.py", "class": "Greeter", "code": code}}
    assert after("class Greeter:\n  x = 1\n  # end\n\ny = 2\n", edit) == (
        "class Greeter:\n  x = 1\n\n  # on the way out\n  @property\n  def bye(self):\n      return 1\n"
        "\n  def late(self):\n      return 2\n  # end\n\ny = 2\n"
    )


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ("class Greeter: pass\n", "class Greeter:\n    pass\n\n    def bye(self):\n        return 'bye'\n"),
        ("class Greeter(A): x = 1; y = 2  # both", None),
        ("if 1:\n\tclass Greeter: pass\n", None),
        ("class Greeter: \\\n  pass\n", None),
        ("class Greeter:\n    @d\n    def m(self): pass", None),
        ("@d\nclass Greeter:\n    'doc'", None),
        ("class Greeter:\r\n    x = 1\r\n", None),
    ],
)
def test_class_bodies_of_all_shapes_take_a_method(before: str, wanted: str | None) -> None:
    text = after(before, trees.add_method())
    assert wanted is None or text == wanted
    assert "bye" in [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    assert text.endswith("\n") == before.endswith("\n")
    assert ("\n" in text.replace("\r\n", "")) == ("\r\n" not in before)


def test_only_the_method_that_is_missing_is_added() -> None:
    edit = {
        "add_methods": {"file": "a.py", "class": "Greeter", "code": "def a(self):\n    pass\ndef b(self):\n    pass\n"}
    }
    text = after("class Greeter:\n    def a(self):\n        pass\n", edit)
    assert text == "class Greeter:\n    def a(self):\n        pass\n\n    def b(self):\n        pass\n"


def test_a_method_with_another_body_or_in_a_condition_counts_as_there() -> None:
    for text in (
        "class Greeter:\n    def bye(self):\n        return 2\n",
        "class Greeter:\n    if True:\n        def bye(self):\n            return 'bye'\n",
        "class Greeter:\n    bye = other\n",
        'class Greeter:\n    def bye(self):\n        """Documented."""\n        return "bye"\n',
    ):
        assert after(text, trees.add_method()) == text
    with_other_body = "class Greeter:\n    def bye(self):\n        return 2\n"
    assert "Greeter.bye is there with another body (line 2)" in refusal(with_other_body, trees.add_method(exact=True))
    documented = 'class Greeter:\n    def bye(self):\n        """Documented."""\n        return "bye"\n'
    assert after(documented, trees.add_method(exact=True)) == documented


def test_a_nested_class_is_found_and_a_missing_one_is_refused() -> None:
    edit = {"add_methods": {"file": "a.py", "class": "Outer.Inner", "code": "def m(self):\n    pass\n"}}
    text = "class Inner:\n    pass\nclass Outer:\n    class Inner:\n        pass\n"
    assert after(text, edit) == text + "\n        def m(self):\n            pass\n"
    assert "has no class Greeter" in refusal(text, trees.add_method())


def test_strings_of_several_lines_are_not_indented() -> None:
    code = 'def text(self):\n    """Doc\n    more."""\n    return """one\ntwo"""\n'
    edit = {"add_methods": {"file": "a.py", "class": "Greeter", "code": code, "exact": True}}
    text = after("class Greeter:\n    x = 1\n", edit)
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert namespace["Greeter"]().text() == "one\ntwo"


def condition(**fields: Any) -> dict[str, Any]:
    return {"extend_condition": {"file": "a.py", "condition": "a or b", "operator": "or", "operand": "c", **fields}}


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ("x = a or b\n", "x = a or b or c\n"),
        ("x = (a or (b)) and d\n", "x = (a or (b) or c) and d\n"),
        ("x = (\n    a  # one\n    or b  # two\n)\n", "x = (\n    a  # one\n    or b or c  # two\n)\n"),
    ],
)
def test_a_condition_is_extended_where_it_stands(before: str, wanted: str) -> None:
    assert after(before, condition()) == wanted
    assert after(wanted, condition()) == wanted


def test_a_condition_of_another_operator_is_put_in_brackets() -> None:
    text = after("if x > 1 and y:\n    pass\n", condition(condition="x > 1", operand="z if y else q"))
    assert text == "if (x > 1 or (z if y else q)) and y:\n    pass\n"
    assert after(text, condition(condition="x > 1", operand="z if y else q")) == text


def test_a_condition_must_stand_as_often_as_promised() -> None:
    assert "stands 2 times in the module" in refusal("x = a or b\ny = a or b\n", condition())
    assert "stands 0 times in f" in refusal("x = a or b\ndef f():\n    pass\n", condition(**{"in": "f"}))
    text = "def f():\n    return a or b\ndef g():\n    return a or b\n"
    assert after(text, condition(**{"in": "g"})) == text.replace("b\n", "b\n", 1)[:-1] + " or c\n"


def importing(code: str) -> dict[str, Any]:
    return {"add_import": {"file": "a.py", "code": code}}


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ('"""Doc."""\nimport os\n\nx = 1\n', '"""Doc."""\nimport os\nimport sys\n\nx = 1\n'),
        ('"""Doc."""\n', '"""Doc."""\nimport sys\n'),
        (
            "#!/usr/bin/python\n# -*- coding: utf-8 -*-\nx = 1\n",
            "#!/usr/bin/python\n# -*- coding: utf-8 -*-\nimport sys\nx = 1\n",
        ),
        ("from __future__ import annotations\nx = 1\n", "from __future__ import annotations\nimport sys\nx = 1\n"),
        ("import os; x = 1\ny = 2\n", "import os; x = 1\nimport sys\ny = 2\n"),
        (
            "from a import (\n    b,\n)\ndef f(): pass\nimport c\n",
            "from a import (\n    b,\n)\nimport sys\ndef f(): pass\nimport c\n",
        ),
        ("", "import sys\n"),
        ("# nothing", "# nothing\nimport sys\n"),
    ],
)
def test_an_import_goes_behind_the_imports_at_the_head(before: str, wanted: str) -> None:
    assert after(before, importing("import sys")) == wanted


def test_an_import_that_is_there_in_another_form_is_not_doubled() -> None:
    text = "from a import b, c as d\ntry:\n    import e.f\nexcept ImportError:\n    pass\n"
    for code in ("from a import b", "from a import c as d", "import e.f"):
        assert after(text, importing(code)) == text
    assert after(text, importing("from a import c")) != text


def replacing(old: str, new: str, count: int = 1, **fields: Any) -> dict[str, Any]:
    return {"replace": {"file": "a.py", "old": old, "new": new, "count": count, **fields}}


def test_a_replacement_must_stand_exactly_as_often_as_promised() -> None:
    assert after("x = 1\ny = 1\n", replacing("= 1", "= 2", 2)) == "x = 2\ny = 2\n"
    assert after("x = 2\ny = 1\n", replacing("= 1", "= 2", 2)) == "x = 2\ny = 2\n"
    assert "stands 2 times in the file and the new text 0 times, not 1 times" in refusal(
        "x = 1\ny = 1\n", replacing("= 1", "= 2")
    )
    assert "has no f" in refusal("x = 1\n", replacing("= 1", "= 2", **{"in": "f"}))


@pytest.mark.parametrize(("old", "new"), [("a()", "a()\nb()"), ("a()\nb()", "a()"), ("a()", "(a())"), ("a()\n", "")])
def test_replacements_that_contain_one_another_are_made_once(old: str, new: str) -> None:
    text = after(f"x\n{old}\ny\n", replacing(old, new))
    assert text == f"x\n{new}\ny\n"
    assert after(text, replacing(old, new)) == text


def test_a_replacement_keeps_the_line_endings_of_the_file() -> None:
    assert after("x\r\ny\r\nz\r\n", replacing("x\ny\n", "x\nw\ny\n")) == "x\r\nw\r\ny\r\nz\r\n"


def test_a_replacement_that_is_there_in_another_form_is_recognised_by_its_tree() -> None:
    text = "def f(x):\n    if (x  # why\n        == 2):\n        return 1\n"
    edit = replacing("if x == 1:\n    return 1\n", "if x == 2:\n    return 1\n")
    assert after(text, edit) == text


DIFF = """--- a/a.py
+++ b/a.py
@@ -2,3 +2,4 @@
 two
-three
+drei
+dreieinhalb
 four
"""
TEXT = "one\ntwo\nthree\nfour\nfive\n"


def diffing(diff: str = DIFF) -> dict[str, Any]:
    return {"unified_diff": {"file": "a.txt", "diff": diff}}


def test_a_diff_is_applied_at_its_line_or_where_else_it_fits_once() -> None:
    wanted = "one\ntwo\ndrei\ndreieinhalb\nfour\nfive\n"
    assert after(TEXT, diffing(), "a.txt") == wanted
    assert after("zero\n" * 3 + TEXT, diffing(), "a.txt") == "zero\n" * 3 + wanted
    assert after(wanted, diffing(), "a.txt") == wanted
    assert after(TEXT.replace("\n", "\r\n"), diffing(), "a.txt") == wanted.replace("\n", "\r\n")


@pytest.mark.parametrize("tail", ["five", "five\n"])
def test_a_diff_at_the_end_of_a_file_leaves_its_last_newline_as_it_is(tail: str) -> None:
    diff = "@@ -4,2 +4,3 @@\n four\n five\n+six\n"
    text = "one\ntwo\nthree\nfour\n" + tail
    assert after(text, diffing(diff), "a.txt") == text.rstrip("\n") + "\nsix" + tail[4:]


def test_a_diff_that_fits_nowhere_names_its_hunk_and_a_line() -> None:
    work = [("p", trees.patch("p", diffing())["edits"][0])]
    message = derive(b"one\ntwo\nfour\n", "a.txt", work).conflicts["p"]
    assert "hunk 1 (@@ -2,3 +2,4 @@) fits nowhere; the file has no line 'three'" in message
    message = derive(b"x\n" + TEXT.encode() * 2, "a.txt", work).conflicts["p"]
    assert "fits at 2 places" in message


def test_encodings_and_the_byte_order_mark_survive() -> None:
    latin = "# -*- coding: latin-1 -*-\nNAME = 'é'\nclass Greeter:\n    x = 'ü'\n".encode("latin-1")
    work = [("p", trees.patch("p", trees.add_method())["edits"][0])]
    data = derive(latin, "a.py", work).data
    assert data.startswith(latin) and data[len(latin) :] == b"\n    def bye(self):\n        return 'bye'\n"
    marked = b"\xef\xbb\xbf" + "LIMITS = {'é': 1}\n".encode()
    work = [("p", trees.patch("p", trees.add_entry())["edits"][0])]
    assert derive(marked, "a.py", work).data == b"\xef\xbb\xbf" + "LIMITS = {'é': 1, 12: []}\n".encode()
    work = [("p", trees.patch("p", trees.add_method(body="return '€'"))["edits"][0])]
    assert "is written in iso-8859-1, which lacks '€'" in derive(latin, "a.py", work).conflicts["p"]


def test_files_that_are_not_python_or_not_text_are_refused() -> None:
    work = [("p", trees.patch("p", trees.add_method())["edits"][0])]
    assert "is not valid Python" in derive(b"class Greeter(:\n", "a.py", work).conflicts["p"]
    assert "encoding declaration" in derive(b"x = '\xff'\n", "a.py", work).conflicts["p"]
    work = [("p", trees.patch("p", diffing())["edits"][0])]
    assert "is not text in utf-8" in derive(b"\xff\n", "a.txt", work).conflicts["p"]


def test_two_patches_on_one_place_are_a_conflict_that_names_both() -> None:
    first = trees.patch("first", trees.add_method(body="return 1"))["edits"][0]
    second = trees.patch("second", trees.add_method(body="return 2"))["edits"][0]
    derived = derive(trees.GREETER, "a.py", [("first", first), ("second", second)])
    assert derived.conflicts == {
        "second": "Greeter.bye is there with another body (line 14), as the patch first wants it"
    }
    first = trees.patch("first", replacing('return "hello"', "return 1"))["edits"][0]
    second = trees.patch("second", replacing('return "hello"', "return 2"))["edits"][0]
    derived = derive(trees.GREETER, "a.py", [("first", first), ("second", second)])
    assert "the patch first changes the same place" in derived.conflicts["second"]
    undoing = trees.patch("undoing", replacing("def bye", "def ciao"))["edits"][0]
    adding = trees.patch("adding", trees.add_method())["edits"][0]
    derived = derive(trees.GREETER, "a.py", [("adding", adding), ("undoing", undoing)])
    assert "what the patch adding adds is undone by another patch" in derived.conflicts["adding"]


def test_an_edit_that_would_not_compile_is_refused() -> None:
    assert "does not compile after the edits" in refusal("x = 1\n", replacing("x = 1", "return 1"))
    assert "is not valid Python" in refusal("x = 1\n", replacing("x = 1", "x = ("))


@pytest.mark.parametrize(
    ("before", "stands", "wanted"),
    [
        ("if a or b:\n    pass\n", "a or b", "if ((a or b) and c):\n    pass\n"),
        ("f(a or b, 1)\n", "a or b", "f(((a or b) and c), 1)\n"),
        ("x = p if q else r\n", "p if q else r", "x = ((p if q else r) and c)\n"),
        ("x = lambda: a\n", "lambda: a", "x = ((lambda: a) and c)\n"),
        ("if (n := f()):\n    pass\n", "(n := f())", "if (((n := f()) and c)):\n    pass\n"),
        ("z = (\n    a  # one\n    and b  # two\n)\n", "a and b", "z = (\n    a  # one\n    and b and c  # two\n)\n"),
    ],
)
def test_a_condition_that_binds_loosely_gets_brackets_of_its_own(before: str, stands: str, wanted: str) -> None:
    assert after(before, condition(condition=stands, operator="and", operand="c")) == wanted


def test_an_import_for_type_checkers_is_none() -> None:
    before = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import foo\nelse:\n    import bar\n"
    assert after(before, importing("import foo")).splitlines()[1] == "import foo"
    assert after(before, importing("import bar")) == before
    assert "has no class A" in refusal(
        "import typing\nif typing.TYPE_CHECKING:\n    class A:\n        pass\n",
        {"add_methods": {"file": "a.py", "class": "A", "code": "def f(self): pass"}},
    )


def test_an_import_of_the_future_goes_on_top() -> None:
    before = '"""Doc."""\nimport os\n'
    wanted = '"""Doc."""\nfrom __future__ import annotations\nimport os\nimport sys\n'
    assert after(before, importing("from __future__ import annotations\nimport sys")) == wanted


@pytest.mark.parametrize("body", ["from m import bye", "hello, bye = f, g", "bye: int = 1"])
def test_whatever_binds_a_name_in_a_class_counts_as_there(body: str) -> None:
    before = f"class A:\n    {body}\n"
    assert after(before, {"add_methods": {"file": "a.py", "class": "A", "code": "def bye(self): pass"}}) == before


def test_a_note_may_move_by_the_lines_that_are_added() -> None:
    """Two definitions of a class: the first lacks the method, the second has it otherwise."""
    before = (
        "try:\n    class A:\n        x = 1\nexcept E:\n    class A:\n        def bye(self):\n            return 2\n"
    )
    edit = {"add_methods": {"file": "a.py", "class": "A", "code": "def bye(self):\n    return 1\n"}}
    assert after(before, edit).count("def bye") == 2


@pytest.mark.parametrize("apart", ["D.update({12: 3})", "D |= {12: 3}", "D[12] = 3"])
def test_an_entry_that_a_statement_of_its_own_sets_counts_as_there(apart: str) -> None:
    before = f"D = {{1: 2}}\n{apart}\n"
    assert after(before, {"add_dict_entry": {"file": "a.py", "dict": "D", "key": "12", "value": "3"}}) == before


def test_a_file_with_line_endings_of_several_kinds() -> None:
    edit = replacing("def f():\n    return 1", "def f():\n    x = 2\n    return x")
    assert after(b"a = 1\r\ndef f():\n    return 1\r\n", edit) == "a = 1\r\ndef f():\n    x = 2\n    return x\r\n"


def test_a_definition_with_the_line_endings_of_elsewhere() -> None:
    method = {"add_methods": {"file": "a.py", "class": "A", "code": "def f(self):\r\n    return 1\r\n"}}
    assert "\r" not in after("class A:\n    x = 1\n", method)
    assert after(b"a = 1\nb = 2\n", diffing("@@ -1,2 +1,2 @@\r\n-a = 1\r\n+a = 3\r\n b = 2\r\n")) == "a = 3\nb = 2\n"


def test_a_line_of_a_hunk_that_looks_like_a_header_is_none() -> None:
    assert (
        after("a = 1\nb = 2\n", diffing("@@ -1,2 +1,3 @@\n a = 1\n+++ a\n b = 2\n"), "a.txt") == "a = 1\n++ a\nb = 2\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@@ -1,5 +1,5 @@\n-a\n+b\n", "promises 5 old and 5 new lines and has others, at line 7"),
        ("@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n", "promises 1 old and 1 new lines"),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-c\n+d\n",
            "changes a second file (a/y)",
        ),
        ("\\ No newline at end of file\n", "has no hunk"),
        ("some words\n@@ -1 +1 @@\n-a\n+b\n", "belongs to no hunk: 'some words'"),
    ],
)
def test_a_diff_that_is_not_whole_is_refused_on_the_controller(text: str, said: str) -> None:
    with pytest.raises(InferopsError) as raised:
        trees.patch("p", diffing(text))
    assert said in raised.value.message
