"""The agent's archive: the same bytes for the same sources, and complete."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.plugin_utils import agent_archive


def test_the_same_sources_give_the_same_version(tmp_path: Path) -> None:
    path, version = agent_archive.archive(tmp_path)
    os.utime(agent_archive.COLLECTION / "agent" / "cli.py")
    assert agent_archive.archive(tmp_path) == (path, version)
    assert path.name == f"{version}.pyz"


def test_an_edit_of_a_source_and_a_damaged_archive_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = tmp_path / "collection"
    for part in ("agent", "plugins/module_utils"):
        shutil.copytree(agent_archive.COLLECTION / part, collection / part)
    monkeypatch.setattr(agent_archive, "COLLECTION", collection)
    path, before = agent_archive.archive(tmp_path / "kept")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert agent_archive.archive(tmp_path / "kept") == (path, before)
    assert path.read_bytes() == whole
    with (collection / "agent" / "cli.py").open("a") as stream:
        stream.write("# edited\n")
    assert agent_archive.archive(tmp_path / "kept")[1] != before


def test_it_runs_by_itself(tmp_path: Path) -> None:
    """Every module in it can be imported from it alone, without the checkout and without a third party."""
    path, dummy = agent_archive.archive(tmp_path)
    names = [
        name[:-3].replace("/", ".").removesuffix(".__init__")
        for name in zipfile.ZipFile(path).namelist()
        if name.endswith(".py") and name != "__main__.py"
    ]
    assert "agent.launch" in names
    code = f"import sys, importlib; sys.path.insert(0, {str(path)!r}); [importlib.import_module(n) for n in {names!r}]"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run([sys.executable, "-I", path, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert "breaker" in shown.stdout


def test_it_speaks_the_language_of_old_targets(tmp_path: Path) -> None:
    """A build may have Python 3.10, a target 3.9: no later syntax."""
    path, dummy = agent_archive.archive(tmp_path)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            ast.parse(archive.read(name), name, feature_version=(3, 9))
