"""The option parser, in the shape that SGLang has it: ``ServerArgs``, ``add_cli_args``, ``prepare_server_args``."""

from __future__ import annotations

import argparse
import os
import re

from sglang.stand_in import control

# name, type (s: text, i: integer, f: number, b: switch, n: one or more texts) and default
_OPTIONS = """
model-path s -              | tokenizer-path s -           | tokenizer-mode s auto         | load-format s auto
model-loader-extra-config s {} | trust-remote-code b -     | context-length i -            | revision s -
model-impl s auto           | host s 127.0.0.1             | port i 30000                  | fastapi-root-path s -
skip-server-warmup b -      | warmups s -                  | nccl-port i -                 | dtype s auto
quantization s -            | kv-cache-dtype s auto        | mem-fraction-static f -       | max-running-requests i -
max-queued-requests i -     | max-total-tokens i -         | chunked-prefill-size i -      | max-prefill-tokens i 16384
schedule-policy s fcfs      | schedule-conservativeness f 1.0 | page-size i -              | device s -
tp-size i 1                 | pp-size i 1                  | stream-interval i 1           | random-seed i -
watchdog-timeout f 300      | dist-timeout i -             | download-dir s -              | base-gpu-id i 0
gpu-id-step i 1             | sleep-on-idle b -            | log-level s info              | log-level-http s -
log-requests b -            | log-requests-level i 2       | crash-dump-folder s -         | show-time-cost b -
enable-metrics b -          | decode-log-interval i 40     | api-key s -                   | admin-api-key s -
served-model-name s -       | weight-version s default     | chat-template s -             | completion-template s -
file-storage-path s sglang_storage | enable-cache-report b - | reasoning-parser s -        | tool-call-parser s -
dp-size i 1                 | load-balance-method s auto   | dist-init-addr s -            | nnodes i 1
node-rank i 0               | json-model-override-args s {} | preferred-sampling-params s - | attention-backend s -
decode-attention-backend s - | prefill-attention-backend s - | sampling-backend s -        | grammar-backend s -
mm-attention-backend s - | speculative-algorithm s - | speculative-draft-model-path s -
speculative-num-steps i -
speculative-eagle-topk i - | speculative-num-draft-tokens i - | speculative-token-map s -
speculative-attention-mode s prefill
speculative-draft-attention-backend s - | ep-size i 1      | moe-a2a-backend s none        | moe-runner-backend s auto
disable-radix-cache b -     | disable-cuda-graph b -       | disable-cuda-graph-padding b - | enable-nccl-nvls b -
enable-symm-mem b -         | disable-custom-all-reduce b - | enable-mscclpp b -           | enable-torch-symm-mem b -
disable-overlap-schedule b - | enable-mixed-chunk b -      | enable-dp-attention b -       | enable-torch-compile b -
torchao-config s - | enable-p2p-check b - | triton-attention-num-kv-splits i 8
enable-hierarchical-cache b -
hicache-ratio f 2.0 | hicache-size i 0 | cuda-graph-bs n -
enable-flashinfer-allreduce-fusion b -
"""
# Options that came or went between releases: first release, one past the last, options.
_BY_RELEASE = (
    ((0, 0, 0), (0, 5, 14), "cuda-graph-max-bs i -"),
    ((0, 5, 14), (9, 9, 9), "cuda-graph-max-bs-decode i - | cuda-graph-max-bs-prefill i -"),
)
_ALIASES = {
    "model-path": ["--model"],
    "tp-size": ["--tensor-parallel-size"],
    "dp-size": ["--data-parallel-size"],
    "pp-size": ["--pipeline-parallel-size"],
    "speculative-draft-model-path": ["--speculative-draft-model"],
    "dist-init-addr": ["--nccl-init-addr"],
}
_TYPES = {"s": str, "i": int, "f": float}


class ServerArgs:
    """The parsed options, one attribute each."""

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)
        self.tokenizer_path = self.tokenizer_path or self.model_path
        self.served_model_name = self.served_model_name or self.model_path

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        parts = [_OPTIONS] + [text for first, end, text in _BY_RELEASE if first <= control.release() < end]
        for text in parts:
            for entry in re.split(r"[|\n]", text):
                if entry.strip():
                    _add(parser, *entry.split())
        parser.add_argument("--config", type=str, help="Read options from a YAML file.")

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace) -> ServerArgs:
        return cls(**{key: value for key, value in vars(args).items() if key != "config"})


def _add(parser: argparse.ArgumentParser, name: str, kind: str, default: str) -> None:
    flags = [f"--{name}", *_ALIASES.get(name, [])]
    dest = name.replace("-", "_")
    if kind == "b":
        parser.add_argument(*flags, dest=dest, action="store_true")
    elif kind == "n":
        parser.add_argument(*flags, dest=dest, type=str, nargs="+")
    else:
        value = None if default == "-" else _TYPES[kind](default)
        parser.add_argument(*flags, dest=dest, type=_TYPES[kind], default=value, required=name == "model-path")


def prepare_server_args(argv: list[str]) -> ServerArgs:
    """Parse ``argv``; options of a ``--config FILE`` come first, so the command line wins, as in SGLang."""
    if "--config" in argv:
        at = argv.index("--config")
        argv = _config(argv[at + 1]) + argv[:at] + argv[at + 2 :]
    parser = argparse.ArgumentParser(prog="launch_server.py")
    ServerArgs.add_cli_args(parser)
    if control.load().get("any_option"):
        return ServerArgs.from_cli_args(parser.parse_known_args(argv)[0])
    return ServerArgs.from_cli_args(parser.parse_args(argv))


def _config(path: str) -> list[str]:
    """``key: value`` lines, values bare or quoted: the part of YAML that a flat option file needs."""
    if not os.path.exists(path):
        raise ValueError(f"Config file not found: {path}")
    found = []
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            key, colon, value = line.partition(":")
            value = value.strip()
            if not colon or key.startswith(("#", " ")) or key == "---":
                continue
            if value[:1] in ("'", '"') and value[-1:] == value[:1]:
                quote, value = value[0], value[1:-1]
                value = value.replace("''", "'") if quote == "'" else value.replace('\\"', '"').replace("\\\\", "\\")
            if value.lower() == "true":
                found.append(f"--{key.strip()}")
            elif value.lower() != "false":
                found += [f"--{key.strip()}", value]
    return found
