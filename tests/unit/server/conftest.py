"""A host's folders in a temporary place."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from server_samples import make_build

# the agent is a package at the root of the repository, as it is in its archive
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every path of ``layout`` below a temporary folder, with the folders that ``prepare`` makes."""
    for name in ("ROOT", "BUILDS", "AGENT", "ETC", "UNITS", "STATE", "LOGS", "RUN"):
        path = tmp_path / getattr(layout, name).lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(layout, name, str(path))
    return tmp_path


@pytest.fixture
def user() -> str:
    return getpass.getuser()


@pytest.fixture
def build(host: Path) -> dict[str, Any]:
    """A sealed build with the options of 0.5.9; what an instance carries of it."""
    return make_build("lock-000000000000", 1)
