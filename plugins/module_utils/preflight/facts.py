# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Everything that the checks look at, gathered once: the instance, its options, sources, models and host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..server.options import Problem
from .calibration import Measured
from .models import Model

#: What shapes the tree of drafts: given all three, or none.
SHAPE_KEYS = ("num_steps", "eagle_topk", "num_draft_tokens")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_TRUE = ("1", "true", "yes", "on", "y")


@dataclass
class Host:
    """The host, as far as a launch depends on it.

    ``gpus`` is what ``gpu.facts`` returns; sizes are bytes; ``port_owners`` have ``pid``, ``cmd``, ``unit`` and
    ``user``; ``folders`` maps each folder of the unit's environment to its file system and whether it can be written;
    ``programs`` maps names to where the unit's PATH finds them (``None``: nowhere). ``giving_way`` are processes of a
    server that was started by hand, and that this run may take over. ``bind_problem`` says why nobody can listen at the
    instance's address; ``first_port`` is the lowest that needs no privilege.
    """

    gpus: dict[str, Any] = field(default_factory=lambda: {"gpus": [], "problems": []})
    memory: int = 0
    shm: int | None = None
    port_owners: list[dict[str, Any]] = field(default_factory=list)
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)
    programs: dict[str, str | None] = field(default_factory=dict)
    cuda_home: dict[str, Any] | None = None
    giving_way: set[int] = field(default_factory=set)
    bind_problem: str = ""
    first_port: int = 1024


@dataclass
class Facts:
    """One instance with all that is known of it.

    ``options`` are those of SGLang by destination, as given (``tp_size``, not ``--tp``); ``sources`` is what
    ``sources_worker`` returns, ``None`` where there is no environment yet; ``variables`` is the unit's environment;
    ``measured`` is what the last good start took of a GPU; ``probe`` is what ``probe_worker`` found inside the unit's
    settings, ``probe_problem`` why it could not look.
    """

    instance: dict[str, Any]
    options: dict[str, Any]
    variables: Mapping[str, str]
    target: Model
    draft: Model | None = None
    sources: dict[str, Any] | None = None
    python: str | None = None
    release: str | None = None
    cuda: str | None = None
    problems: list[Problem] = field(default_factory=list)
    speculates: bool = False
    host: Host = field(default_factory=Host)
    patches: list[str] = field(default_factory=list)
    waiting_for: str = ""
    measured: Measured | None = None
    probe: dict[str, Any] | None = None
    probe_problem: str = ""
    #: The other instances of the host, as far as they are known here.
    others: list[Facts] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.instance["name"])

    @property
    def algorithm(self) -> str | None:
        """The algorithm in force; ``NEXTN`` is what SGLang calls EAGLE."""
        name = str((self.instance.get("speculative") or {}).get("algorithm") or "").upper()
        return None if not self.speculates or not name else "EAGLE" if name == "NEXTN" else name

    @property
    def eagle(self) -> bool:
        """Whether the target's hidden states are drafted from."""
        return self.algorithm in ("EAGLE", "EAGLE3")

    @property
    def trees(self) -> bool:
        """Whether a model drafts a tree of tokens, in steps."""
        return self.eagle or self.algorithm == "STANDALONE"

    def speculative(self, key: str) -> Any:
        return (self.instance.get("speculative") or {}).get(key)

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """Steps, topk and draft tokens as the release will use them; ``None`` where they are incomplete."""
        given = [self.speculative(key) for key in SHAPE_KEYS]
        if all(value is None for value in given):
            given = list((self.sources or {}).get("automatic") or [None] * 3)
        if any(value is None for value in given):
            return None
        steps, topk, tokens = (int(value) for value in given)
        return (steps, topk, steps + 1 if topk == 1 else tokens)

    def source(self, key: str) -> Any:
        return (self.sources or {}).get(key)

    def amount(self, name: str) -> float | None:
        """An option that is a number; ``None`` where it is not given, or no number (another check says so)."""
        return amount(self.options.get(name))

    def number(self, name: str, default: int) -> int:
        value = self.amount(name)
        return default if value is None else int(value)

    def flag(self, name: str) -> bool:
        value = self.options.get(name)
        return value.strip().lower() in _TRUE if isinstance(value, str) else bool(value)

    def variable(self, name: str) -> bool:
        return self.variables.get(name, "").strip().lower() in _TRUE

    @property
    def on_gpu(self) -> bool:
        return self.instance["gpus"] != ["none"] and str(self.options.get("device") or "cuda").startswith("cuda")

    @property
    def cards(self) -> list[dict[str, Any]]:
        """The GPUs that the instance names, of those that the host has."""
        listed: list[dict[str, Any]] = self.host.gpus["gpus"]
        wanted = [str(gpu) for gpu in self.instance["gpus"]]
        if wanted == ["all"]:
            return listed
        return [gpu for gpu in listed if str(gpu["index"]) in wanted or gpu["uuid"] in wanted]

    @property
    def needed(self) -> int:
        """GPUs that the instance takes of this host."""
        return self.local_ranks * self.replicas

    @property
    def taken(self) -> list[dict[str, Any]]:
        """The cards that its ranks come to lie on."""
        return self.cards[self.number("base_gpu_id", 0) :: max(1, self.number("gpu_id_step", 1))][: self.needed]

    @property
    def capability(self) -> str | None:
        """The compute capability of the instance's GPUs (``12.0``), the lowest where they differ."""
        found = [gpu["compute_capability"] for gpu in self.cards if gpu.get("compute_capability")]
        return min(found, key=lambda text: tuple(map(int, text.split(".")))) if found else None

    @property
    def major(self) -> int | None:
        return None if self.capability is None else int(self.capability.partition(".")[0])

    @property
    def attention_groups(self) -> int:
        """Data parallel groups of attention among the tensor parallel ranks (an option of its own from 0.5.21 on)."""
        groups = self.number("attn_dp_size", 1)
        return self.number("dp_size", 1) if groups == 1 and self.flag("enable_dp_attention") else groups

    @property
    def attention_ranks(self) -> int:
        """Tensor parallel ranks that share the heads of one attention."""
        return max(1, self.number("tp_size", 1) // self.attention_groups // self.number("attn_cp_size", 1))

    @property
    def replicas(self) -> int:
        """Data parallel copies of the whole model."""
        return 1 if self.flag("enable_dp_attention") else self.number("dp_size", 1)

    @property
    def ranks(self) -> int:
        """Processes that hold a share of the model, on all nodes together."""
        return self.number("tp_size", 1) * self.number("pp_size", 1)

    @property
    def local_ranks(self) -> int:
        return max(1, self.ranks // max(1, self.number("nnodes", 1)))

    def before(self, release: str) -> bool:
        """Whether the instance's release is older; false where it is not known."""
        return self.release is not None and version(self.release) < version(release)


def amount(value: Any) -> float | None:
    """A value as a number, written as later releases take it, too (``32k``, ``1Mi``); ``None`` for what is none."""
    import re

    if isinstance(value, (bool, type(None))):
        return None
    match = re.fullmatch(r"\s*([+-]?[\d.]+)(k|M|G|T|Ki|Mi|Gi|Ti)?\s*", str(value))
    try:
        return float(match.group(1)) * _UNITS[match.group(2) or ""] if match else None
    except ValueError:
        return None


def version(text: str) -> tuple[int, ...]:
    """A release as numbers: ``0.5.6.post2`` counts as ``0.5.6.2``."""
    import re

    return tuple(int(number) for number in re.findall(r"\d+", text.partition("+")[0]))


def is_mla(model: Model) -> bool:
    """Whether a model has multi-head latent attention (DeepSeek's, Kimi's)."""
    return model.text.get("kv_lora_rank") is not None
