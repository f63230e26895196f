# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Checks of the host and of the unit's environment: options, GPUs, driver, port, caches, compilers."""

from __future__ import annotations

from collections.abc import Iterator

from .. import layout
from ..gpu import requirement
from ..server.spec import IN_PLACE
from . import proxies
from .check import ERROR, WARNING, Item, Outcome, Result, deferred, failed, passed
from .facts import Facts

_MIB, _GIB = 1 << 20, 1 << 30
#: File systems whose locks and renames a JIT cache cannot rely on, or that are far away.
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.glusterfs", "ceph", "fuse.ceph", "lustre", "9p")
_CACHES = (
    "XDG_CACHE_HOME",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TVM_FFI_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
)


def build(facts: Facts) -> Result:
    if facts.sources is None:
        return deferred(f"{facts.waiting_for} is not there yet; what depends on it is checked when it is")
    return passed(f"SGLang {facts.release} in {facts.sources['root']}", release=facts.release)


def options(facts: Facts) -> Result:
    if facts.sources is None and not facts.problems:
        return deferred(f"the options are checked against {facts.waiting_for}")
    found = [failed(problem.message, severity=problem.severity, option=problem.option) for problem in facts.problems]
    return found or passed(f"SGLang {facts.release} knows every option")


def gpu_count(facts: Facts) -> Result:
    if not facts.on_gpu:
        return None
    listed, cards, needed = facts.host.gpus["gpus"], facts.cards, facts.needed
    wanted = [str(gpu) for gpu in facts.instance["gpus"]]
    if wanted != ["all"] and len(cards) < len(wanted):
        known = ", ".join(f"{gpu['index']} ({gpu['uuid']})" for gpu in listed) or "none"
        return failed(f"gpus names {', '.join(wanted)}, and the host has {known}", wanted=wanted)
    if len(cards) < needed:
        return failed(
            f"the server needs {needed} GPUs on this host (tp_size {facts.number('tp_size', 1)}, pp_size "
            f"{facts.number('pp_size', 1)}, dp_size {facts.number('dp_size', 1)}) and has {len(cards)}"
            + (f": {facts.host.gpus['nvidia_smi_error']}" if facts.host.gpus.get("nvidia_smi_error") else ""),
            needed=needed,
            found=len(cards),
        )
    if len(facts.taken) < needed:
        begin, step = facts.number("base_gpu_id", 0), facts.number("gpu_id_step", 1)
        return failed(
            f"the server needs {needed} GPUs, and counting from base_gpu_id {begin} in steps of {step} there are "
            f"{len(facts.taken)} of the {len(cards)} that it may use: lower one of them, or name the GPUs in gpus",
            needed=needed,
            found=len(facts.taken),
        )
    return passed(f"{len(cards)} GPUs for {needed} ranks")


def gpu_health(facts: Facts) -> Result:
    if not facts.on_gpu:
        return None
    problems = facts.host.gpus["problems"]
    found = [
        failed(p["message"], severity=p["severity"], problem=p["name"], **p["evidence"])
        for p in problems
        if p["severity"] != "info"
    ]
    return found or passed("driver, device nodes and cards have no problem")


def gpus_free(facts: Facts) -> Result:
    if not facts.on_gpu or not facts.cards:
        return None
    return list(_holders(facts)) or passed("nobody else holds the GPUs")


def gpus_shared(facts: Facts) -> Result:
    """Two servers on one card are fine where both say how much of it they take; SGLang takes most of it otherwise."""
    if not facts.on_gpu or not facts.taken or not facts.others:
        return None
    return list(_sharers(facts)) or passed("no other instance is described on the same GPUs, or both leave room")


def _sharers(facts: Facts) -> Iterator[Outcome]:
    mine = {card["uuid"]: card["index"] for card in facts.taken}
    for other in facts.others:
        shared = [mine[card["uuid"]] for card in other.taken if card["uuid"] in mine] if other.on_gpu else []
        shares = [each.amount("mem_fraction_static") for each in (facts, other)]
        if shared and (None in shares or sum(filter(None, shares)) > 1):
            yield failed(
                f"this instance and {other.name!r} are both described on GPU {', '.join(map(str, shared))}, and a "
                "server takes most of a card's memory unless it is told otherwise: give them GPUs of their own (gpus, "
                "tp_size), or set mem_fraction_static of both so that they fit together",
                gpus=shared,
                other=other.name,
                mem_fraction_static=shares,
            )


def _holders(facts: Facts) -> Iterator[Outcome]:
    own = layout.Instance(facts.name).unit
    for card in facts.cards:
        # whether two that are described on one card fit together is another check's matter
        sharers = {layout.Instance(other.name).unit for other in facts.others if card in other.taken}
        for process in card["processes"]:
            if process["unit"] in {own, *sharers} or process["pid"] in facts.host.giving_way:
                continue
            who = "an orphan: its parent is gone" if process["orphan"] else process["unit"] or "no service"
            yield failed(
                f"GPU {card['index']} is held by pid {process['pid']} of {process['user']} ({who}): "
                f"{process['cmd'][:120]}; end it (gpu_drain ends our own leftovers), or give this instance other "
                "GPUs",
                gpu=card["index"],
                pid=process["pid"],
                orphan=process["orphan"],
                memory_used=process["memory_used"],
            )
        for process in card.get("held_elsewhere", []):
            yield failed(
                f"GPU {card['index']} is held from outside this container (pid {process['pid']} of another namespace): "
                "ask on the hypervisor",
                gpu=card["index"],
                memory_used=process["memory_used"],
            )


def driver_cuda(facts: Facts) -> Result:
    driver = facts.host.gpus.get("driver_version")
    if not facts.on_gpu or facts.cuda is None:
        return None
    if driver is None:
        return failed(
            f"the build is for CUDA {facts.cuda} and this host has no NVIDIA driver: install it, or use a lock for a "
            "CPU",
            cuda=facts.cuda,
        )
    wrong = requirement.judge(driver, facts.cuda, facts.host.gpus.get("container"))
    if wrong:
        return failed(wrong, driver=driver, cuda=facts.cuda)
    return passed(f"driver {driver} carries CUDA {facts.cuda}")


def port(facts: Facts) -> Result:
    number = facts.instance["port"]
    own = layout.Instance(facts.name).unit
    strangers = [owner for owner in facts.host.port_owners if owner["unit"] != own]
    others = [owner for owner in strangers if owner["pid"] not in facts.host.giving_way]
    if strangers and not others:
        return passed(
            f"port {number} is held by pid {strangers[0]['pid']}, a server started by hand that gives way (adopt): "
            f"{strangers[0]['cmd'][:160]}",
            pid=strangers[0]["pid"],
        )
    if others:
        owner = others[0]
        return failed(
            f"port {number} is held by pid {owner['pid']} of {owner['user']} ({owner['unit'] or 'no service'}): "
            f"{owner['cmd'][:160]}; stop it, or choose another port. SGLang would load everything first, and may even "
            "call itself ready over another server's answers",
            port=number,
            pid=owner["pid"],
        )
    return passed(f"port {number} is " + ("held by this instance itself" if facts.host.port_owners else "free"))


def bind(facts: Facts) -> Result:
    """Tried after everything is loaded, and then the server ends."""
    host, number = facts.instance["host"], facts.instance["port"]
    if facts.host.bind_problem:
        return failed(
            f"nobody can listen at host {host!r} here: {facts.host.bind_problem}; SGLang would load everything first; "
            "give an address of this host, 127.0.0.1, or 0.0.0.0 for all",
            host=host,
        )
    privileged = facts.instance["mode"] == IN_PLACE and facts.instance["run_as"] == "root"
    if number < facts.host.first_port and not privileged:
        return failed(
            f"port {number} is below {facts.host.first_port}, and the unit has no privilege to listen there: take a "
            "higher one (a gateway or proxy may listen below), or lower net.ipv4.ip_unprivileged_port_start",
            port=number,
            first=facts.host.first_port,
        )
    return passed(f"the unit can listen at {host}, port {number}")


def proxy(facts: Facts) -> Result:
    """The server asks itself for a first token through HTTP, at the address that it is bound to, as it is written."""
    host = str(facts.instance["host"])
    through = proxies.used({**(facts.probe or {}).get("proxies", {}), **facts.variables}, host)
    if through is None:
        return passed("no proxy comes between the server and its own address")
    name, value = through
    return failed(
        f"the unit has {name}={value}, and NO_PROXY does not hold {host}: the server's own warm-up request goes to the "
        f"proxy, fails after two minutes and ends the server; add {host} (and 127.0.0.1) to NO_PROXY in env",
        variable=name,
        host=host,
    )


def home(facts: Facts) -> Result:
    value = facts.variables.get("HOME", "")
    if not value.startswith("/") or value == "/":
        return failed(
            f"HOME of the unit is {value!r}: kernels' caches would go to /.cache and fail, and flashinfer needs a home "
            "although its own folder is set; remove HOME from env, or name a folder of the service user",
            home=value,
        )
    return passed(f"HOME is {value}")


def cache_folders(facts: Facts) -> Result:
    return list(_cache_problems(facts)) or passed("caches lie on a local disk and can be written")


def _cache_problems(facts: Facts) -> Iterator[Outcome]:
    seen: set[tuple[str, str]] = set()
    for name in ("HOME", *_CACHES):
        path = facts.variables.get(name)
        known = facts.host.folders.get(path or "")
        if path is None or known is None or (path, known["type"]) in seen:
            continue
        seen.add((path, known["type"]))
        evidence = {"variable": name, "path": path, "file_system": known["type"]}
        if known["type"] in REMOTE:
            yield failed(
                f"{name}={path} lies on {known['type']}: compilers' locks deadlock there, or end in 'Stale file "
                "handle'; use a folder on a local disk",
                **evidence,
            )
        elif known["type"] in ("tmpfs", "ramfs"):
            yield failed(
                f"{name}={path} lies in memory ({known['type']}): it is lost at a restart of the host, and kernels are "
                "compiled again at the next start; use a folder on a disk",
                severity=WARNING,
                **evidence,
            )
        if not known["writable"]:
            yield failed(
                f"{name}={path} cannot be written by {facts.instance['run_as']} inside the unit: add it to "
                "writable_paths and give it to that user",
                **evidence,
            )


def dev_shm(facts: Facts) -> Result:
    size, ranks = facts.host.shm, facts.needed
    if size is None or ranks < 2 or not facts.on_gpu:
        return None
    if size < 64 * _MIB * ranks:
        return failed(
            f"/dev/shm has {size // _MIB} MiB; NCCL needs at least {64 * ranks} MiB for {ranks} ranks, better 1 GiB: "
            "mount it larger (size= in fstab, --shm-size for a container)",
            bytes=size,
        )
    if size < _GIB:
        return failed(
            f"/dev/shm has {size // _MIB} MiB; 1 GiB or more is better for {ranks} ranks", severity=WARNING, bytes=size
        )
    return passed(f"/dev/shm has {size // _MIB} MiB")


def cuda_majors(facts: Facts) -> Result:
    """Two in one environment end in ``undefined symbol`` at import, or in the wrong library being loaded first."""
    majors: dict[str, list[str]] | None = facts.source("cuda_packages")
    if not majors or not facts.on_gpu:
        return None
    if len(majors) > 1:
        named = "; ".join(f"CUDA {major}: {', '.join(packages[:4])}" for major, packages in sorted(majors.items()))
        return failed(
            f"the environment has packages of {len(majors)} CUDA majors ({named}): make it anew from one lock",
            packages=majors,
        )
    return passed(f"every package is for CUDA {next(iter(majors))}")


def flashinfer_packages(facts: Facts) -> Result:
    """flashinfer refuses to be imported beside binaries of another version, which an upgrade in place leaves there."""
    versions: dict[str, str] | None = facts.source("flashinfer")
    if not versions or len(versions) < 2:
        return None
    plain = {name: text.partition("+")[0] for name, text in versions.items()}
    if len(set(plain.values())) > 1:
        return failed(
            f"flashinfer's packages are of different versions ({', '.join(f'{n} {v}' for n, v in versions.items())}): "
            "it refuses to be imported; remove flashinfer-cubin and flashinfer-jit-cache, or install the same version",
            versions=versions,
        )
    return passed(f"flashinfer's packages are of one version, {next(iter(plain.values()))}")


def cuda_home(facts: Facts) -> Result:
    value = facts.variables.get("CUDA_HOME")
    if not facts.on_gpu or facts.cuda is None:
        return None
    known = facts.host.cuda_home
    if value is None:
        return failed("the unit has no CUDA_HOME: kernels are compiled at the start, and no toolkit would be found")
    if known is None or not known["folder"]:
        return failed(
            f"CUDA_HOME is {value!r}, which is not one existing folder (a leading or doubled colon is taken "
            "literally): install that toolkit (cuda_toolkit), or set cuda_home of the instance",
            cuda_home=value,
        )
    if not known["nvcc"]:
        return failed(f"CUDA_HOME {value} has no bin/nvcc: it is no whole toolkit", cuda_home=value)
    return passed(f"CUDA_HOME is {value}")


def compilers(facts: Facts) -> Result:
    if not facts.on_gpu or not facts.host.programs:
        return None
    missing = sorted(name for name, path in facts.host.programs.items() if path is None)
    if missing:
        return failed(
            f"the unit's PATH has no {', '.join(missing)} ({facts.variables.get('PATH', '')}): kernels are compiled "
            "at the start, which fails minutes into the load; a login shell's PATH is not the unit's",
            missing=missing,
        )
    return passed(", ".join(f"{name} is {path}" for name, path in sorted(facts.host.programs.items())))


def core_dumps(facts: Facts) -> Result:
    if facts.number("dp_size", 1) > 1 and facts.instance.get("core_dumps"):
        return failed(
            "dp_size is above 1 and core_dumps is on: when a rank fails, the data parallel controller dumps its memory "
            "for minutes before anything is restarted; set core_dumps: false",
        )
    return None


def api_keys_shown(facts: Facts) -> Result:
    """SGLang prints its whole configuration when it starts, and hands it out to whoever may ask for a token."""
    given = [name for name in ("api_key", "admin_api_key") if facts.instance.get(name)]
    hides = facts.source("hides_keys")
    if not given or hides is None:
        return None
    if hides:
        return passed("the server keeps its API keys out of its log, its answers and its dumps")
    listed = "redact_api_keys" in facts.patches
    cure = (
        "the patch redact_api_keys is listed, but is not in these sources: run deploy.yml, or see sglang_patch"
        if listed
        else "add the patch redact_api_keys to the instance's patches"
    )
    return failed(
        f"SGLang {facts.release} prints {' and '.join(given)} into its log"
        + (" and gives the admin key to everybody with a user key (/server_info)" if len(given) > 1 else "")
        + f", and writes them into crash dumps; {cure}",
        keys=given,
    )


TABLE = (
    Item("build", ERROR, "The environment is there (everything that needs it is deferred until then)", build),
    Item("options", ERROR, "The installed release knows every option, and takes its value", options),
    Item("gpu_count", ERROR, "The host has the GPUs that the instance names and its ranks need", gpu_count),
    Item("gpu_health", ERROR, "Driver, libraries, device nodes, fabric manager and cards are sound", gpu_health),
    Item("gpus_free", ERROR, "Nobody else holds the GPUs; orphans are named", gpus_free),
    Item(
        "gpus_shared", ERROR, "No other instance is described on the same GPUs, or both say what they take", gpus_shared
    ),
    Item("driver_cuda", ERROR, "The driver carries the CUDA version of the build", driver_cuda),
    Item("port", ERROR, "The port is free, or held by this instance itself", port),
    Item("bind", ERROR, "The unit can listen at its address and port", bind),
    Item("proxy", ERROR, "No proxy comes between the server and its own address", proxy),
    Item("home", ERROR, "HOME of the unit is a folder of its own", home),
    Item(
        "cache_folders", ERROR, "Caches lie on a local disk that survives a restart, and can be written", cache_folders
    ),
    Item("dev_shm", ERROR, "`/dev/shm` is large enough for the ranks", dev_shm),
    Item("cuda_majors", ERROR, "The environment's packages are for one CUDA major", cuda_majors),
    Item("flashinfer_packages", ERROR, "flashinfer's packages are of one version", flashinfer_packages),
    Item("cuda_home", ERROR, "CUDA_HOME is one existing toolkit", cuda_home),
    Item("compilers", ERROR, "The unit's own PATH finds nvcc, ninja and a C++ compiler", compilers),
    Item("core_dumps", WARNING, "No core dumps where a failing rank would stop everything for minutes", core_dumps),
    Item("api_keys_shown", WARNING, "The release keeps the API keys out of its log and its answers", api_keys_shown),
)
