"""Archives of the host agent go when nothing names them any more."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.server import agents


def test_what_a_unit_or_a_kept_activation_names_stays(host: Path) -> None:
    names = ("wanted", "unit", "liveness", "record", "kept", "old", "older")
    archives = {name: Path(layout.AGENT) / f"{name}.pyz" for name in names}
    for path in archives.values():
        path.touch()
    (Path(layout.AGENT) / "notes.txt").touch()
    (Path(layout.UNITS) / "sglang-a.service").write_text(f"ExecStart=python -I {archives['unit']} launch a\n")
    (Path(layout.UNITS) / "sglang-a-liveness.service").write_text(f"ExecStart=python -I {archives['liveness']} x\n")
    (Path(layout.UNITS) / "other.service").write_text(f"ExecStart={archives['old']}\n")
    activation = Path(layout.ROOT) / "b" / "activations" / "3"
    activation.mkdir(parents=True)
    (activation / "activation.json").write_text(json.dumps({"agent": str(archives["record"])}))
    (activation / "unit").write_text(f"ExecStart=python -I {archives['kept']} launch b\n")
    assert agents.prune(str(archives["wanted"])) == [str(archives["old"]), str(archives["older"])]
    left = {path.stem for path in Path(layout.AGENT).iterdir()}
    assert left == {"wanted", "unit", "liveness", "record", "kept", "notes"}
    assert agents.prune(str(archives["wanted"])) == []
