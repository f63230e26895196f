"""Whole trees: what is there, what comes in, what goes out again, and who put it there."""

from __future__ import annotations

import os
import py_compile
import shutil
import sys
import zipfile
from pathlib import Path

import patch_trees as trees
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.patch import in_place, worker
from support import run

FILES = {"__init__.py": b"", "a.py": trees.GREETER, "sub/b.py": trees.GREETER, "c.py": b"LIMITS = {}\n"}
BYE = trees.patch("bye", trees.add_method())
LIMIT = trees.patch("limit", trees.add_entry())
BOTH_FILES = trees.patch("both_files", trees.add_method("late"), trees.add_method("late", file="sub/b.py"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return trees.site_packages(tmp_path, FILES)


def test_apply_then_again_then_absent_is_the_wheel_again(tree: Path) -> None:
    before = trees.snapshot(tree)
    assert trees.plan(tree, BYE, LIMIT, BOTH_FILES)["changed"] and trees.snapshot(tree) == before
    answer = trees.apply(tree, BYE, LIMIT, BOTH_FILES)
    assert answer["changed"] and answer["release"] == "0.5.9"
    assert trees.states(answer) == [(name, "present", "inferops") for name in ("bye", "limit", "both_files")]
    patched = trees.snapshot(tree)
    assert b"def bye" in patched["sglang/a.py"] and b"12: []," in patched["sglang/a.py"]
    again = trees.apply(tree, BYE, LIMIT, BOTH_FILES)
    assert not again["changed"] and trees.states(again) == trees.states(answer)
    assert [one["was"] for one in again["patches"]] == ["present"] * 3
    gone = trees.apply(tree, BYE, LIMIT, BOTH_FILES, state="absent")
    assert gone["changed"] and [one["state"] for one in gone["patches"]] == ["absent"] * 3
    assert trees.snapshot(tree) == before and not (tree / ".inferops-patch").exists()
    assert not trees.apply(tree, BYE, state="absent")["changed"]


def test_that_the_release_has_it_all_is_remembered_until_the_release_changes(tree: Path) -> None:
    """Found out once by reading the sources, told by hashes afterwards; and never believed of another release."""
    old = trees.patch("old", trees.add_method(), applies_to="<0.5.9")
    answer = trees.apply(tree, old)
    assert not answer["changed"] and trees.states(answer) == [("old", "not_needed", "")]
    again = worker.unchanged(trees.request(tree, old))
    assert again is not None and trees.states(again) == [("old", "not_needed", "")]
    (tree / "sglang-0.5.9.dist-info").rename(tree / "sglang-0.5.8.dist-info")
    assert worker.unchanged(trees.request(tree, old)) is None
    assert trees.states(trees.apply(tree, old)) == [("old", "present", "inferops")]


def test_one_of_two_patches_on_a_file_goes_and_the_other_stays(tree: Path) -> None:
    trees.apply(tree, LIMIT)
    only_limit = trees.snapshot(tree)
    trees.apply(tree, BYE)
    assert b"def bye" in (tree / "sglang/a.py").read_bytes()
    assert trees.states(trees.apply(tree, BYE, state="absent")) == [("bye", "absent", "inferops")]
    assert trees.snapshot(tree) == only_limit


def test_a_changed_definition_is_derived_from_pristine_text(tree: Path) -> None:
    trees.apply(tree, BYE, LIMIT)
    answer = trees.apply(tree, trees.patch("bye", trees.add_method(body="return 'ciao'")))
    text = (tree / "sglang/a.py").read_text()
    assert answer["changed"] and "'ciao'" in text and "'bye'" not in text and "12: []" in text


def test_a_patch_that_the_release_has_or_does_not_concern_changes_no_file(tree: Path) -> None:
    before = trees.snapshot(tree)
    upstream = trees.patch("upstream", trees.add_method("hello", "return 'hi'"))
    newer = trees.patch("newer", trees.add_method(), applies_to=">=0.5.10")
    parted = trees.patch("parted", trees.add_method(releases=">=0.5.10"))
    answer = trees.apply(tree, upstream, newer, parted)
    assert trees.states(answer) == [(name, "not_needed", "") for name in ("upstream", "newer", "parted")]
    assert [one["notes"] for one in answer["patches"]] == [
        ["release 0.5.9 has it", "Greeter.hello is there with another body (line 11)"],
        ["release 0.5.9 is outside >=0.5.10"],
        ["none of its edits is for release 0.5.9"],
    ]
    assert not answer["changed"] and trees.snapshot(tree) == before
    assert not trees.apply(tree, upstream, newer, parted, state="absent")["changed"]
    assert trees.snapshot(tree) == before and not (tree / ".inferops-patch").exists()


def test_a_conflict_of_one_patch_keeps_all_out(tree: Path) -> None:
    before = trees.snapshot(tree)
    lost = trees.patch("lost", {"add_methods": {"file": "a.py", "class": "Gone", "code": "def m(self): pass"}})
    nowhere = trees.patch("nowhere", trees.add_method(file="no.py"))
    answer = trees.apply(tree, BYE, lost, nowhere)
    assert "lost: " in answer["error"] and "has no class Gone" in answer["error"]
    assert "no.py is not in this release" in answer["error"]
    assert [one["state"] for one in answer["patches"]] == ["present", "conflict", "conflict"]
    assert trees.snapshot(tree) == before and not (tree / ".inferops-patch").exists()


def by_hand(tree: Path, name: str = "bye", body: str = "return 'bye'  # quick fix") -> None:
    path = tree / "sglang/a.py"
    path.write_bytes(
        path.read_bytes().replace(
            b"said politely\n", f"said politely\n\n    def {name}(self):\n        {body}\n".encode()
        )
    )


def test_what_was_done_by_hand_is_recognised_and_not_doubled(tree: Path) -> None:
    by_hand(tree)
    before = trees.snapshot(tree)
    answer = trees.apply(tree, BYE)
    assert trees.states(answer) == [("bye", "present", "other hand")] and not answer["changed"]
    assert trees.snapshot(tree) == before
    again = trees.apply(tree, BYE)
    assert trees.states(again) == [("bye", "present", "other hand")] and not again["changed"]


def test_half_done_by_hand_only_the_rest_is_added(tree: Path) -> None:
    code = "def bye(self):\n    return 'bye'\n\ndef late(self):\n    return 1\n"
    two = trees.patch("two", {"add_methods": {"file": "a.py", "class": "Greeter", "code": code}})
    by_hand(tree)
    halfway = trees.snapshot(tree)
    answer = trees.apply(tree, two)
    text = (tree / "sglang/a.py").read_text()
    assert answer["changed"] and trees.states(answer) == [("two", "present", "inferops")]
    assert text.count("def bye") == 1 and text.count("def late") == 1 and "# quick fix" in text
    assert answer["patches"][0]["notes"] == ["sglang/a.py: 1 of 2 parts were there by other hand"]
    assert not trees.apply(tree, two)["changed"]
    gone = trees.apply(tree, two, state="absent")
    assert "the text of the release is not at hand" in gone["error"] and not gone["changed"]
    assert "def late" in (tree / "sglang/a.py").read_text()
    assert halfway != trees.snapshot(tree)


def test_done_differently_by_hand_is_a_note_or_a_conflict(tree: Path) -> None:
    by_hand(tree, body="return 'later'")
    answer = trees.apply(tree, BYE)
    assert trees.states(answer) == [("bye", "present", "other hand")] and not answer["changed"]
    assert answer["patches"][0]["notes"] == ["Greeter.bye is there with another body (line 14)"]
    strict = trees.patch("bye", trees.add_method(exact=True))
    assert "the patch demands its own" in trees.apply(tree, strict)["error"]


def test_what_was_done_by_hand_goes_when_the_wheel_is_given(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = trees.snapshot(tree)
    wheel = tmp_path_factory.mktemp("wheel") / "sglang-0.5.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(f"sglang/{name}", data)
    by_hand(tree)
    assert "cannot be put back" in trees.apply(tree, BYE, state="absent")["error"]
    answer = trees.apply(tree, BYE, state="absent", pristine=str(wheel))
    assert answer["changed"] and trees.states(answer) == [("bye", "absent", "other hand")]
    assert trees.snapshot(tree) == before
    by_hand(tree)
    (tree / "sglang/a.py").write_bytes((tree / "sglang/a.py").read_bytes() + b"EXTRA = 1\n")
    assert "cannot be put back" in trees.apply(tree, BYE, state="absent", pristine=str(wheel))["error"]


def test_a_wheel_of_another_release_is_not_believed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    wheel = tmp_path_factory.mktemp("wheel") / "sglang-0.5.8-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sglang/a.py", trees.GREETER + b"\n")
    by_hand(tree)
    assert "cannot be put back" in trees.apply(tree, BYE, state="absent", pristine=str(wheel))["error"]


def test_a_file_edited_for_another_reason_needs_a_word(tree: Path) -> None:
    path = tree / "sglang/a.py"
    path.write_bytes(path.read_bytes() + b"DEBUG = True\n")
    answer = trees.apply(tree, BYE)
    assert "no patch explains the difference" in answer["error"] and not answer["changed"]
    answer = trees.apply(tree, BYE, allow_foreign=True)
    assert answer["changed"] and trees.states(answer) == [("bye", "present", "inferops")]
    assert path.read_bytes().endswith(b"DEBUG = True\n") and b"def bye" in path.read_bytes()
    assert not trees.apply(tree, BYE)["changed"]


def test_a_patched_file_that_was_changed_since_is_put_right_and_the_text_kept(tree: Path) -> None:
    trees.apply(tree, BYE)
    patched = trees.snapshot(tree)
    path = tree / "sglang/a.py"
    path.write_bytes(path.read_bytes().replace(b"'bye'", b"'see you'"))
    changed = path.read_bytes()
    answer = trees.apply(tree, BYE)
    assert answer["changed"] and answer["patches"][0]["was"] == "drifted"
    assert trees.snapshot(tree) == patched
    kept = answer["patches"][0]["notes"][0].rpartition(" ")[2]
    assert Path(kept).read_bytes() == changed


def test_a_patched_file_that_was_removed_or_reinstalled_is_patched_again(tree: Path) -> None:
    trees.apply(tree, BYE)
    patched = trees.snapshot(tree)
    (tree / "sglang/a.py").unlink()
    assert trees.apply(tree, BYE)["changed"] and trees.snapshot(tree) == patched
    (tree / "sglang/a.py").write_bytes(trees.GREETER)
    assert trees.apply(tree, BYE)["changed"] and trees.snapshot(tree) == patched


def test_a_new_release_is_taken_as_it_is(tree: Path) -> None:
    trees.apply(tree, BYE, LIMIT)
    store = tree / ".inferops-patch"
    kept = shutil.copytree(store, tree.parent / "kept")
    for path in list(tree.iterdir()):
        shutil.rmtree(path)
    newer = {**FILES, "a.py": trees.GREETER.replace(b"politely", b"warmly").replace(b"10: [6, 8],  # last", b"12: [],")}
    trees.site_packages(tree, newer, "0.5.14")
    shutil.copytree(kept, store)
    before = trees.snapshot(tree)
    answer = trees.apply(tree, BYE, LIMIT)
    assert trees.states(answer) == [("bye", "present", "inferops"), ("limit", "not_needed", "")]
    assert b"warmly" in (tree / "sglang/a.py").read_bytes()
    trees.apply(tree, BYE, LIMIT, state="absent")
    assert trees.snapshot(tree) == before


def test_mode_and_line_endings_survive_and_links_are_not_written_through(tree: Path) -> None:
    path = tree / "sglang/a.py"
    path.write_bytes(trees.GREETER.replace(b"\n", b"\r\n"))
    path.chmod(0o640)
    shutil.rmtree(tree / "sglang-0.5.9.dist-info")
    cached = tree / "cache.py"
    os.link(path, cached)
    linked = tree / "sglang/sub/b.py"
    elsewhere = tree / "b_elsewhere.py"
    linked.rename(elsewhere)
    linked.symlink_to(elsewhere)
    before = path.read_bytes()
    trees.apply(tree, BYE, BOTH_FILES)
    assert cached.read_bytes() == before and elsewhere.read_bytes() == trees.GREETER
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n") > before.count(b"\n")
    assert not linked.is_symlink() and b"def late" in linked.read_bytes()
    trees.apply(tree, BYE, BOTH_FILES, state="absent")
    assert path.read_bytes() == before and linked.read_bytes() == trees.GREETER


def test_owner_survives(tree: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(tree / "sglang/a.py", 1234, 4321)
    trees.apply(tree, BYE)
    assert ((tree / "sglang/a.py").stat().st_uid, (tree / "sglang/a.py").stat().st_gid) == (1234, 4321)


def test_stale_bytecode_goes(tree: Path) -> None:
    compiled = py_compile.compile(
        str(tree / "sglang/a.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    other = py_compile.compile(str(tree / "sglang/c.py"))
    assert compiled and other
    trees.apply(tree, BYE)
    assert not Path(compiled).exists() and Path(other).exists()


def test_a_link_out_of_the_package_is_refused(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "x.py").write_bytes(trees.GREETER)
    (tree / "sglang/out").symlink_to(outside)
    answer = trees.apply(tree, trees.patch("out", trees.add_method(file="out/x.py")))
    assert "leads through a link" in answer["error"] and (outside / "x.py").read_bytes() == trees.GREETER


def test_integrity_lists_what_no_patch_explains(tree: Path) -> None:
    trees.apply(tree, BYE)
    assert worker.integrity(trees.request(tree)) == []
    (tree / "sglang/c.py").write_bytes(b"LIMITS = {1: 2}\n")
    (tree / "sglang/sub/b.py").unlink()
    (tree / "sglang/models").mkdir()
    (tree / "sglang/models/own.py").write_bytes(b"")
    (tree / "sglang/a.py").write_bytes((tree / "sglang/a.py").read_bytes() + b"\n")
    assert worker.integrity(trees.request(tree)) == [
        {"path": "sglang/a.py", "problem": "changed"},
        {"path": "sglang/c.py", "problem": "changed"},
        {"path": "sglang/models/own.py", "problem": "added"},
        {"path": "sglang/sub/b.py", "problem": "missing"},
    ]


def bring(target: Path, *definitions: dict, check_mode: bool = False, **fields: object) -> dict:
    return in_place.bring(run, in_place.Wish(str(target), list(definitions), **fields), check_mode)  # type: ignore[arg-type]


def test_check_mode_shows_the_lines_that_would_change(tree: Path) -> None:
    before = trees.snapshot(tree)
    foretold = bring(tree, BYE, check_mode=True)
    (shown,) = foretold["diff"]
    changes = [line for line in shown["prepared"].splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert sorted(changes) == ["+", "+        return 'bye'", "+    def bye(self):"]
    assert foretold["changed"] and trees.snapshot(tree) == before
    assert bring(tree, BYE)["diff"] == foretold["diff"] and bring(tree, BYE)["diff"] == []


def test_a_git_checkout_gets_its_pristine_text_from_git(tmp_path: Path) -> None:
    root = trees.checkout(tmp_path, FILES)
    before = trees.snapshot(root)
    by_hand(root)
    check = bring(tmp_path, BYE, check_mode=True)
    assert not check["changed"] and check["patches"][0]["by"] == "other hand"
    assert [one["path"] for one in check["integrity"]] == ["sglang/a.py"]
    result = bring(root, BYE, LIMIT)
    assert result["changed"]
    assert trees.states(result) == [("bye", "present", "inferops"), ("limit", "present", "inferops")]
    assert result["integrity"] == []
    assert not bring(root, BYE, LIMIT)["changed"]
    gone = bring(root, BYE, LIMIT, state="absent")
    assert gone["changed"] and trees.snapshot(root) == before
    assert run(["git", "-C", str(root), "status", "--porcelain"]).stdout == ""


def test_by_hand_in_a_checkout_goes_back_to_what_was_committed(tmp_path: Path) -> None:
    root = trees.checkout(tmp_path, FILES)
    before = trees.snapshot(root)
    by_hand(root)
    assert trees.states(bring(root, BYE, state="absent")) == [("bye", "absent", "other hand")]
    assert trees.snapshot(root) == before


def git(root: Path, *argv: str) -> str:
    done = run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(root), *argv])
    assert done.rc == 0, done.stderr
    return done.stdout


def test_a_checkout_with_commits_of_its_own(tmp_path: Path) -> None:
    root = trees.checkout(tmp_path, FILES)
    path = root / "sglang/a.py"
    path.write_bytes(path.read_bytes() + b"\nMINE = 1\n")
    git(root, "commit", "-qam", "mine")
    assert bring(root, BYE)["changed"]
    assert bring(root, BYE, state="absent")["changed"]
    assert path.read_bytes().endswith(b"MINE = 1\n") and git(root, "status", "--porcelain") == ""


def test_a_patched_text_that_was_committed_is_the_checkouts_own(tmp_path: Path) -> None:
    root = trees.checkout(tmp_path, FILES)
    bring(root, BYE)
    git(root, "commit", "-qam", "with the patch")
    other = trees.patch("bye", trees.add_method(body="return 'ciao'"))
    (result,) = bring(root, other)["patches"]
    assert result["state"] == "not_needed" and "another body" in result["notes"][1]
    assert not bring(root, other, state="absent")["changed"]
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("undo", [("checkout", "--", "."), ("stash",), ("reset", "-q", "--hard")])
def test_what_git_has_undone_comes_back(tmp_path: Path, undo: tuple[str, ...]) -> None:
    root = trees.checkout(tmp_path, FILES)
    bring(root, BYE)
    git(root, *undo)
    assert bring(root, BYE)["changed"] and not bring(root, BYE)["changed"]
    assert bring(root, BYE, state="absent")["changed"]
    assert git(root, "status", "--porcelain") == ""


def test_a_worktree_has_a_memory_of_its_own(tmp_path: Path) -> None:
    root = trees.checkout(tmp_path / "one", FILES)
    git(root, "worktree", "add", "-q", str(tmp_path / "two"))
    assert bring(tmp_path / "two", BYE)["changed"] and not bring(tmp_path / "two", BYE)["changed"]
    assert bring(root, BYE, check_mode=True)["changed"]
    assert bring(tmp_path / "two", BYE, state="absent")["changed"]
    assert git(tmp_path / "two", "status", "--porcelain") == ""


def test_a_checkout_with_other_line_endings_than_git_keeps(tmp_path: Path) -> None:
    root = trees.checkout(tmp_path, FILES)
    (tmp_path / ".gitattributes").write_text("*.py text eol=crlf\n")
    git(root, "add", "-A")
    git(root, "commit", "-qam", "attributes")
    shutil.rmtree(root / "sglang")
    git(root, "checkout", "--", ".")
    before = trees.snapshot(root)
    assert b"\r\n" in before["sglang/a.py"]
    assert bring(root, BYE)["integrity"] == []
    assert b"\r\n    def bye(self):\r\n" in (root / "sglang/a.py").read_bytes()
    assert bring(root, BYE, state="absent")["changed"] and trees.snapshot(root) == before


@pytest.mark.parametrize("content", [None, b"no wheel"])
def test_a_wheel_that_is_none_is_named(tree: Path, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    wheel = tmp_path_factory.mktemp("wheels") / "sglang.whl"
    if content:
        wheel.write_bytes(content)
    with pytest.raises(InferopsError, match="is no wheel on this host"):
        bring(tree, BYE, pristine=str(wheel))


def test_a_tree_of_links_is_patched_beside_what_they_lead_to(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An installer may link each file to its cache."""
    kept = tmp_path_factory.mktemp("cache") / "a.py"
    shutil.move(tree / "sglang/a.py", kept)
    (tree / "sglang/a.py").symlink_to(kept)
    assert bring(tree, BYE)["changed"] and kept.read_bytes() == trees.GREETER
    assert bring(tree, BYE, state="absent")["changed"] and (tree / "sglang/a.py").read_bytes() == trees.GREETER


def test_a_patch_that_was_not_ours_is_replaced_by_exactly_what_is_asked_for(tree: Path) -> None:
    before = trees.snapshot(tree)
    bring(tree, BYE, LIMIT)
    told = bring(tree, BOTH_FILES, state="exactly")
    assert trees.states(told) == [
        ("both_files", "present", "inferops"), ("bye", "absent", "inferops"), ("limit", "absent", "inferops")
    ]  # fmt: skip
    assert not bring(tree, BOTH_FILES, state="exactly")["changed"]
    assert bring(tree, state="exactly")["changed"] and trees.snapshot(tree) == before


def test_an_untracked_file_of_a_checkout_is_a_stranger(tmp_path: Path) -> None:
    root = trees.checkout(tmp_path, FILES)
    (root / "sglang/own.py").write_bytes(b"")
    assert bring(root, BYE)["integrity"] == [{"path": "sglang/own.py", "problem": "added"}]


def test_a_sealed_build_is_refused(tree: Path) -> None:
    (tree.parent / "manifest.json").write_text('{"build_id": "x"}')
    try:
        with pytest.raises(InferopsError, match="sealed build"):
            bring(tree, BYE)
    finally:
        (tree.parent / "manifest.json").unlink()


def test_a_target_that_is_none_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InferopsError, match="holds no package sglang"):
        bring(tmp_path, BYE)
    with pytest.raises(InferopsError, match="neither a folder nor a program"):
        bring(tmp_path / "no", BYE)


def test_an_import_that_fails_keeps_the_patch_out(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    python = environment(tree, tmp_path_factory.mktemp("bin"))
    before = trees.snapshot(tree)
    broken = trees.patch("broken", {"add_import": {"file": "c.py", "code": "import no_such_module_at_all"}})
    with pytest.raises(InferopsError, match="sglang.c cannot be imported: ModuleNotFoundError"):
        bring(python, broken, BYE, verify_import=True)
    assert trees.snapshot(tree) == before
    assert bring(python, BYE, verify_import=True)["changed"]
    assert not bring(python, BYE, verify_import=True)["changed"]
    lacking = trees.patch("lacking", trees.add_method("late", file="sub/b.py"))
    (tree / "sglang/sub/__init__.py").write_bytes(b"import no_such_module_at_all")
    result = bring(python, lacking, verify_import=True)
    assert result["changed"] and ["sglang.sub.b cannot be imported" in one for one in result["unverified"]] == [True]


def environment(tree: Path, folder: Path) -> Path:
    """A program that is Python with the tree on its path, even in isolated mode."""
    python = folder / "python"
    python.write_text(
        "#!/bin/sh\n# the caller gives: -I -B -c CODE BASE ENTRY\n"
        f"exec {sys.executable} -I -B -c \"import sys; sys.path.insert(0, '{tree}'); exec(sys.argv.pop(1))\" "
        '"$4" "$5" "$6"\n'
    )
    python.chmod(0o755)
    return python


def test_a_second_run_at_the_same_time_is_told_so(tree: Path) -> None:
    from ansible_collections.inferops.sglang.plugins.module_utils.patch.commit import locked
    from ansible_collections.inferops.sglang.plugins.module_utils.patch.store import Store

    store = Store(str(tree / ".inferops-patch"))
    with locked(store):
        assert "another run is patching this tree" in trees.apply(tree, BYE)["error"]
    assert trees.apply(tree, BYE)["changed"]
