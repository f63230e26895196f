# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What would have to change in a tree, so that patches are there or are gone. Nothing here writes.

Every file is derived anew from its base: the pristine text of the release, wherever that is known. A patch is never put
on top of a patch. Text that somebody else has edited becomes the base only where the pristine text cannot explain it,
and then either the edits are partly what the patch wants, or ``allow_foreign`` says so.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import Any

from ..errors import InferopsError
from ..files import read_bytes, read_text, sha256
from .derive import Derived, Part, Work, derive
from .fingerprint import digest
from .reference import References, dist_info, matches
from .release import contains
from .source import Conflict, Source, same
from .store import Store, empty_state
from .transaction import overlay

PRESENT, ABSENT, NOT_NEEDED, CONFLICT = "present", "absent", "not_needed", "conflict"
# a state that can be asked for: what is named is in, and everything else that is in goes
EXACTLY = "exactly"
OURS, OTHER = "inferops", "other hand"


@dataclass
class FilePlan:
    """One file: as it is, as it has to be, and what to remember of it."""

    key: str
    path: str
    current: bytes | None
    wanted: bytes | None
    base: bytes | None
    parts: dict[str, Part] = field(default_factory=dict)
    reference: str | None = None
    foreign: bool = False  # the base is a text that somebody else has edited
    adopted: bool = False  # what the patches want was there by other hand, and is left as it is
    drifted: bool = False  # it was patched by us, and has been changed since
    pristine_lacking: bool = False  # the release's text would help, and is not at hand

    @property
    def changed(self) -> bool:
        return self.wanted != self.current


@dataclass
class Planned:
    release: str | None
    results: list[dict[str, Any]]
    files: list[FilePlan]
    state: dict[str, Any]

    @property
    def conflicts(self) -> list[str]:
        return [f"{one['name']}: {note}" for one in self.results if one["state"] == CONFLICT for note in one["notes"]]


class Planner:
    def __init__(self, request: dict[str, Any], store: Store) -> None:
        self.request = request
        self.store = store
        self.roots: dict[str, str] = {**request.get("roots", {})}
        self.unfinished = overlay(store.folder)
        left = self.unfinished.get(store.state_file)
        self.state: dict[str, Any] = store.state() if left is None else json.loads(left)
        self.references: dict[str, References] = {}
        self.distributions = {
            edit["package"]: edit["distribution"]
            for definition in [*self.state["definitions"], *request["definitions"]]
            for edit in definition["edits"]
        }
        self.release = release_of(request)

    # -- what the tree is -------------------------------------------------------------------------------------------

    def path(self, key: str) -> str:
        """The file's path; it must lie inside its package, whatever links there are on the way.

        :raises InferopsError: when a link leads out of the package.
        """
        package, dummy, file = key.partition("/")
        folder = os.path.join(self.root_of(key), package)
        path = os.path.join(folder, *file.split("/"))
        inside = os.path.realpath(os.path.dirname(path))
        if os.path.commonpath([os.path.realpath(folder), inside]) != os.path.realpath(folder):
            raise InferopsError(
                f"{path} leads through a link to {inside}, out of the package {package}; patches change files of the "
                "package only. Remove the link, or patch the place that it leads to"
            )
        return path

    def root_of(self, key: str) -> str:
        return self.roots.get(key.partition("/")[0], str(self.request["root"]))

    def read(self, path: str) -> bytes | None:
        return self.unfinished[path] if path in self.unfinished else read_bytes(path)

    def reference(self, key: str) -> References:
        package = key.partition("/")[0]
        if package not in self.references:
            self.references[package] = References(
                self.root_of(key), package, self.distributions.get(package, package), self.request.get("git")
            )
        return self.references[package]

    # -- what is wanted ---------------------------------------------------------------------------------------------

    def run(self) -> Planned:
        named = self.request["definitions"]
        wanted, going = self._wanted(named)
        work, skipped = self._work(wanted)
        files = {key: self._file(key, work.get(key, [])) for key in sorted({*work, *self.state["files"]})}
        removals = [self._removal(definition, files) for definition in going]
        results = [self._result(definition, files, skipped.get(definition["name"])) for definition in wanted]
        state = self._new_state(wanted, results, removals, files)
        named = [*named, *(definition for definition in going if definition not in named)]
        shown = {definition["name"] for definition in named}
        results = [one for one in [*results, *removals] if one["name"] in shown or one["state"] == CONFLICT]
        results.sort(key=lambda one: [*shown_order(named), one["name"]].index(one["name"]))
        return Planned(self.release, results, list(files.values()), state)

    def _wanted(self, named: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """All definitions that shall be in force, in order, and those that shall go. Those of earlier runs stay, unless
        they are named or exactly the named ones are asked for."""
        given = {definition["name"]: definition for definition in named}
        recorded: list[dict[str, Any]] = self.state["definitions"]
        state = self.request.get("state", PRESENT)
        if state == EXACTLY:
            return named, [one for one in recorded if one["name"] not in given]
        if state == ABSENT:
            return [one for one in recorded if one["name"] not in given], named
        kept = [given.pop(one["name"], one) for one in recorded]
        return [*kept, *given.values()], []

    def _work(self, wanted: list[dict[str, Any]]) -> tuple[dict[str, Work], dict[str, str]]:
        """The edits of each file, and the reason for each patch that this release has no use for."""
        work: dict[str, Work] = {}
        skipped: dict[str, str] = {}
        for definition in wanted:
            name = definition["name"]
            if not contains(definition["applies_to"], self.release):
                skipped[name] = f"release {self.release} is outside {definition['applies_to']}"
                continue
            active = False
            for edit in definition["edits"]:
                key = f"{edit['package']}/{edit['file']}"
                reference = self.reference(key)
                version = self.release if edit["package"] == "sglang" else reference.version
                if contains(edit["releases"], version):
                    work.setdefault(key, []).append((name, edit))
                    active = True
            if not active:
                skipped[name] = f"none of its edits is for release {self.release}"
        return work, skipped

    # -- one file ---------------------------------------------------------------------------------------------------

    def _file(self, key: str, work: Work) -> FilePlan:
        path = self.path(key)
        current = self.read(path)
        reference = self.reference(key).hashes.get(key)
        record = self.state["files"].get(key)
        if record and record["reference"] != reference:
            record = None  # of a release that is gone
        pristine = self._pristine(key, current, reference, record)
        plan = FilePlan(key, path, current, current, pristine, reference=reference)
        plan.pristine_lacking = pristine is None and reference is not None
        plan.drifted = bool(record) and (current is None or sha256(current) != record["patched"])
        if record and record["foreign"]:
            plan.foreign = True
            plan.base = self.store.get(record["base"])
            if not work:
                plan.base = plan.wanted = pristine
                return plan
        elif current is not None and current != pristine and not record and work:
            self._foreign(plan, pristine, work)
        if not work:
            if record:
                plan.wanted = pristine
            return plan
        if plan.base is None:
            problem = "is not in this release" if current is None else "has been edited, and its earlier text is gone"
            if not os.path.isdir(os.path.join(self.root_of(key), key.partition("/")[0])):
                problem = f"is not there: the package {key.partition('/')[0]} is not installed in {self.root_of(key)}"
            plan.parts = {name: Part(conflict=f"{path} {problem}") for name, dummy in work}
            return plan
        derived = derive(plan.base, path, work)
        plan.parts = derived.parts
        kept = record is not None and not plan.drifted and record["digests"] == self._digests(work)
        if not (derived.conflicts or plan.adopted or kept):
            plan.wanted = derived.data
            self._refuse_foreign(plan, record)
        return plan

    def _pristine(
        self, key: str, current: bytes | None, reference: str | None, record: dict[str, Any] | None
    ) -> bytes | None:
        """The text of the release, if it can be had and is what the reference says."""
        if matches(current, reference):
            return current
        if reference is None:  # nobody can say what it was: what we first found counts
            return self.store.get(record["base"]) if record else current
        candidates = [record["base"]] if record else []
        if reference.startswith("sha256:"):
            candidates.append(reference.partition(":")[2])
        for name in candidates:
            data = self.store.get(name)
            if matches(data, reference):
                return data
        data = _from_archive(self.request.get("pristine"), key)
        return data if matches(data, reference) else None

    def _foreign(self, plan: FilePlan, pristine: bytes | None, work: Work) -> None:
        """A file that is neither the release's nor ours: are the patches all that was done to it?"""
        current = plan.current
        if current is None:
            return
        there = derive(current, plan.path, work)
        done = [(name, edit) for name, edit in work if not there.parts[name].conflict and not there.parts[name].added]
        if pristine is not None and done and _means(current, derive(pristine, plan.path, done), plan.path):
            plan.adopted = len(done) == len(work)
            return
        plan.base = current
        plan.foreign = True

    def _refuse_foreign(self, plan: FilePlan, record: dict[str, Any] | None) -> None:
        if not plan.foreign or record or not plan.changed or self.request.get("allow_foreign"):
            return
        if any(part.found for part in plan.parts.values()):
            return  # somebody has begun what the patch is for
        for part in plan.parts.values():
            if part.added:
                part.conflict = (
                    f"{plan.path} is not what the release installed, and no patch explains the difference; look at it, "
                    "then reinstall the package, or set allow_foreign: true to patch it as it is"
                )

    def _digests(self, work: Work) -> dict[str, str]:
        names = {name for name, dummy in work}
        return {one["name"]: digest(one) for one in self._known if one["name"] in names}

    @property
    def _known(self) -> list[dict[str, Any]]:
        return self._wanted(self.request["definitions"])[0]

    # -- one patch --------------------------------------------------------------------------------------------------

    def _result(self, definition: dict[str, Any], files: dict[str, FilePlan], skipped: str | None) -> dict[str, Any]:
        name = definition["name"]
        mine = [plan for plan in files.values() if name in plan.parts]
        result: dict[str, Any] = {
            "name": name,
            "digest": digest(definition),
            "state": NOT_NEEDED,
            "was": NOT_NEEDED,
            "by": "",
            "files": [],
            "notes": [skipped] if skipped else [note for plan in mine for note in plan.parts[name].notes],
            "examined": {plan.key: sha256(plan.wanted) for plan in mine if plan.wanted is not None},
        }
        conflicts = [plan.parts[name].conflict for plan in mine if plan.parts[name].conflict]
        if conflicts:
            return {**result, "state": CONFLICT, "was": CONFLICT, "notes": conflicts}
        touched = [plan for plan in mine if plan.parts[name].added or plan.foreign]
        if not touched:
            has = [] if skipped else [f"release {self.release or 'unknown'} has it"]
            return {**result, "notes": [*has, *result["notes"]]}
        by_other = [plan for plan in touched if plan.adopted or (plan.foreign and not plan.parts[name].added)]
        result["state"] = PRESENT
        result["by"] = OTHER if len(by_other) == len(touched) else OURS
        result["files"] = [plan.key for plan in touched]
        changed = [plan for plan in touched if plan.changed]
        result["was"] = PRESENT if not changed else "drifted" if any(plan.drifted for plan in changed) else ABSENT
        for plan in touched:
            part = plan.parts[name]
            if plan.foreign and part.found and part.added:
                result["notes"].append(
                    f"{plan.key}: {part.found} of {part.found + part.added} parts were there by other hand"
                )
            if plan.drifted and plan.changed and plan.current is not None:
                result["notes"].append(
                    f"{plan.key} was changed since it was patched; the changed text is kept as "
                    f"{self.store.folder}/pristine/{sha256(plan.current)}"
                )
        return result

    def _removal(self, definition: dict[str, Any], files: dict[str, FilePlan]) -> dict[str, Any]:
        """A patch that shall be gone: its result. Files that only this patch has touched get their pristine text."""
        name = definition["name"]
        result: dict[str, Any] = {
            "name": name,
            "digest": digest(definition),
            "state": ABSENT,
            "was": ABSENT,
            "by": "",
            "files": [],
            "notes": [],
        }
        recorded = [key for key, record in self.state["files"].items() if name in record["digests"]]
        work, dummy = self._work([definition])
        by_hand = [key for key in work if key not in recorded and self._remove_by_hand(key, work[key], files)]
        for key in [*recorded, *by_hand]:
            if files[key].base is None or (files[key].foreign and key not in recorded):
                result["state"] = CONFLICT
                result["notes"].append(
                    f"{files[key].path} cannot be put back: the text of the release is not at hand. Give the wheel "
                    "that was installed as 'pristine', or reinstall the package, and run again"
                )
        if recorded or by_hand:
            result["was"], result["by"] = PRESENT, OURS if recorded else OTHER
            result["files"] = sorted([*recorded, *by_hand])
        return result

    def _remove_by_hand(self, key: str, work: Work, files: dict[str, FilePlan]) -> bool:
        """Whether somebody else has put the patch into this file; then the file is planned to be pristine."""
        plan = files.get(key) or self._file(key, [])
        if plan.current is None or matches(plan.current, plan.reference) or plan.reference is None:
            return False
        there = derive(plan.current, plan.path, work)
        if there.conflicts or any(part.added for part in there.parts.values()):
            return False
        files[key] = plan
        if plan.base is not None and _means(plan.current, derive(plan.base, plan.path, work), plan.path):
            plan.wanted = plan.base
        else:
            plan.base = None
        return True

    # -- what to remember -------------------------------------------------------------------------------------------

    def _new_state(
        self,
        wanted: list[dict[str, Any]],
        results: list[dict[str, Any]],
        removals: list[dict[str, Any]],
        files: dict[str, FilePlan],
    ) -> dict[str, Any]:
        state = empty_state()
        state["release"] = self.release
        in_force = {one["name"] for one in results if one["state"] == PRESENT}
        state["definitions"] = [one for one in wanted if one["name"] in in_force]
        gone = {one["name"] for one in removals}
        state["results"] = {
            **{name: one for name, one in self.state["results"].items() if name not in gone},
            **{one["name"]: one for one in results},
        }
        for key, plan in files.items():
            touching = [name for name, part in plan.parts.items() if part.added or plan.foreign]
            if touching and plan.wanted is not None and plan.base is not None:
                state["files"][key] = {
                    "base": sha256(plan.base),
                    "patched": sha256(plan.wanted),
                    "reference": plan.reference,
                    "foreign": plan.foreign,
                    "digests": {one["name"]: digest(one) for one in wanted if one["name"] in plan.parts},
                }
        return state


def shown_order(named: list[dict[str, Any]]) -> list[str]:
    return [definition["name"] for definition in named]


def release_of(request: dict[str, Any]) -> str | None:
    """The release of SGLang in a tree: as the caller says, by its metadata, or by its ``_version.py``."""
    if request.get("release"):
        return str(request["release"])
    root = request.get("roots", {}).get("sglang", request["root"])
    folder = dist_info(root, "sglang")
    if folder:
        return folder[: -len(".dist-info")].rpartition("-")[2]
    text = read_text(os.path.join(root, "sglang", "_version.py")) or ""
    found = re.search(r"^(?:__version__ = )?version = ['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found[1] if found else None


def _means(current: bytes, derived: Derived, path: str) -> bool:
    """Whether the text is the derived one: the same bytes, or the same program."""
    if derived.conflicts:
        return False
    if derived.data == current:
        return True
    try:
        return path.endswith(".py") and same(Source(current, path).tree, Source(derived.data, path).tree)
    except Conflict:
        return False


def _from_archive(archive: str | None, key: str) -> bytes | None:
    """A file out of a wheel (zip) or of what ``git archive`` wrote (tar)."""
    if not archive:
        return None
    if archive.endswith((".whl", ".zip")):
        import zipfile

        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(key) if key in wheel.namelist() else None
    import tarfile

    with tarfile.open(archive) as tar:
        member = next((one for one in tar.getmembers() if one.isfile() and one.name == key), None)
        stream = tar.extractfile(member) if member else None
        return stream.read() if stream else None
