"""Model folders of real shapes, made once: headers only, so they take a few megabytes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import model_folders
import pytest
import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.patch import engine
from ansible_collections.inferops.sglang.plugins.plugin_utils import catalogue
from releases import release_tree
from support import run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def kimi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folders.kimi_k25(tmp_path_factory.mktemp("models") / "kimi-k2.5-int4")


@pytest.fixture(scope="session")
def kimi_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folders.kimi_draft(tmp_path_factory.mktemp("models") / "kimi-eagle3")


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folders.llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="session")
def llama_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "llama-eagle3"
    return model_folders.draft(folder, 4096, 128256, 32000, max_position_embeddings=131072)


@pytest.fixture(scope="session")
def patched_059(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of 0.5.9 with the patches of ``inventories/rtx-pro-6000-8x``, applied by the patch engine."""
    tree = tmp_path_factory.mktemp("patched") / "site-packages"
    shutil.copytree(release_tree("0.5.9"), tree)
    patches = yaml.safe_load((ROOT / "inventories/rtx-pro-6000-8x/group_vars/sglang.yml").read_text())
    names = patches["sglang_instances"]["kimi"]["patches"]
    definitions = catalogue.load(names, ROOT)
    done = engine.apply_in_build(run, sys.executable, str(tree), "0.5.9", definitions)
    assert {entry["name"]: entry["state"] for entry in done} == dict.fromkeys(names, "present")
    return tree
