# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the inventory's description of servers to what the modules take.

The inventory names things (a lock, patches); a host knows only content. What has to be read from files of the
collection or of the user is read here, on the controller, once for each task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError, nearest
from ansible_collections.inferops.sglang.plugins.module_utils.server import spec
from ansible_collections.inferops.sglang.plugins.plugin_utils import agent_archive, builds, catalogue
from ansible_collections.inferops.sglang.plugins.plugin_utils import described as form

COLLECTION = Path(__file__).resolve().parent.parent.parent
#: What plays read in the results of modules, beside the names of instances and builds.
_WORDS = (
    "none", "restart", "rebuild", "host", "agent", "toolkit", "build", "activation", "process", "patches", "gpus",
    "ready", "starting", "started", "failed", "stopped", "absent", "present", "pending", "good", "restored", "drained",
    "True", "False",
)  # fmt: skip
#: Fewer stand in the number of a process or in seconds.
_DIGITS = 6


def instances(
    described: Mapping[str, Any],
    override: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The instances as a list, each with its ``name``, with the overrides merged in.

    ``described`` is the inventory's ``sglang_instances``, by name. ``only`` keeps those names.

    :raises InferopsError: for what is no mapping, and for an override of, or a limit to, an instance that is not
        described.
    """
    if not isinstance(described, Mapping):
        raise InferopsError(
            f"sglang_instances is {form.kind(described)}; wanted a mapping of names to instances "
            "(sglang_instances: {kimi: {model_path: …, lock: …}})"
        )
    for name, value in described.items():
        if value is not None and not isinstance(value, Mapping):
            raise InferopsError(
                f"instance {str(name)!r} is {form.kind(value)}; wanted a mapping with 'model_path', 'lock' and the like"
            )
    listed = [{**_copy(dict(value or {})), "name": name} for name, value in described.items()]
    names = list(described)
    for name in [*(override or {}), *only]:
        if name not in names:
            raise InferopsError(
                f"instance {name!r} is not described: found {', '.join(names) or 'none'} in sglang_instances"
                + nearest(str(name), names)
            )
    for instance in listed:
        merge(instance, (override or {}).get(instance["name"], {}))
    return [instance for instance in listed if not only or instance["name"] in only]


def merge(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Merge ``over`` into ``base``: mappings deeply, everything else replaces."""
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = _copy(value)


def _copy(value: Any) -> Any:
    """A copy down to the texts and numbers; ``copy.deepcopy`` would take each of Ansible's tagged texts apart."""
    if isinstance(value, Mapping):
        return {key: _copy(part) for key, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def complete(
    described: Sequence[Mapping[str, Any]], playbook_dir: str | None = None, ours: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The instances with what only the controller knows: their builds and the agent, unless the caller has put them
    there. What every action plugin of a module with ``instances`` does; ``ours`` is ``agent()``, where it is known.

    :raises InferopsError: for an unknown key, lock or patch, a value of the wrong kind, or a secret that hides results.
    """
    problems = form.problems(described)
    if problems:
        raise InferopsError("; ".join(problems), problems=problems)
    ours = ours or agent()
    listed = [{**instance, "agent": instance.get("agent") or ours} for instance in described]
    _add_builds([instance for instance in listed if not instance.get("build")], playbook_dir)
    problems = list(_hiding(listed))
    if problems:
        raise InferopsError("; ".join(problems), problems=problems)
    return listed


def _hiding(listed: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The secrets for which Ansible would hide parts of every result: it hides a secret wherever it stands."""
    names = [str(instance.get("name")) for instance in listed]
    builds_ = [str((instance.get("build") or {}).get("build_id", "")) for instance in listed]
    read = [*_WORDS, *names, *builds_, *(str(instance["agent"].get("version", "")) for instance in listed)]
    for instance in listed:
        secrets = {key: instance.get(key) for key in ("api_key", "admin_api_key")}
        secrets.update({f"secret_env.{key}": value for key, value in (instance.get("secret_env") or {}).items()})
        for where, value in secrets.items():
            text = "" if value is None else str(value)
            if text and (any(text in word for word in read) or (text.isdigit() and len(text) < _DIGITS)):
                yield (
                    f"instance {instance.get('name')!r}: the value of {where} stands in names, words or numbers of any "
                    "result too, and Ansible hides a secret wherever it stands, so that no plan could be read; take a "
                    "longer one" + (", or set it in 'env' if it is none" if "." in where else "")
                )


def _add_builds(listed: Sequence[dict[str, Any]], playbook_dir: str | None) -> None:
    """Give each instance its ``build``, short (``short``): only the module that makes a build needs the pins and the
    patch definitions. An instance in place has none, and its tree is patched by the definitions.

    :raises InferopsError: for a lock or patch that does not exist or is not valid.
    """
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for instance in listed:
        if instance.get("mode") == spec.IN_PLACE:
            instance["definitions"] = catalogue.load(form.listed(instance.get("patches")), COLLECTION)
            instance["patches"] = [definition["name"] for definition in instance["definitions"]]
            continue
        if not instance.get("lock"):
            raise InferopsError(
                f"instance {instance.get('name')!r} has no lock: set 'lock' to a shipped name "
                f"({', '.join(builds.shipped(COLLECTION))}) or to a folder of yours, or use mode: in_place"
            )
        key = (str(instance["lock"]), repr(instance.get("patches")))
        if key not in known:
            # which interpreter makes the build, and from where, is no part of what the build is
            known[key] = short(
                builds.resolve(
                    str(instance["lock"]),
                    form.listed(instance.get("patches")),
                    python="",
                    collection_root=COLLECTION,
                    search=[playbook_dir] if playbook_dir else [],
                )
            )
        instance["build"] = known[key]
        instance["patches"] = known[key]["patches"]


def short(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What an instance carries of its build's specification."""
    lock = spec["lock"]
    return {
        "build_id": spec["build_id"],
        "release": lock["release"],
        "cuda": lock["cuda"],
        "environment": lock["environment"],
        "patches": [patch["name"] for patch in spec["patches"]],
    }


def agent() -> dict[str, str]:
    """The host agent that belongs to this version of the collection: where its archive lies here, and its version."""
    path, version = agent_archive.archive()
    return {"path": str(path), "version": version}
