# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of ``instances``: the twin of ``module_utils/server/spec.py``."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  instances:
    description:
      - The SGLang servers of this host, each described completely.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the instance; its unit is C(sglang-NAME.service).
        type: str
        required: true
      mode:
        description:
          - With V(managed), the server runs from a sealed build made by M(inferops.sglang.python_env).
          - With V(in_place), it runs from an environment of your own, named by O(instances[].python).
        type: str
        choices: [managed, in_place]
        default: managed
      model_path:
        description: Folder of the target model, or its name on the hub.
        type: str
        required: true
      host:
        description: Address that the server listens on.
        type: str
        default: 127.0.0.1
      port:
        description: TCP port that the server listens on.
        type: int
        default: 30000
      gpus:
        description:
          - V(all), V(none), or the GPUs that this server may use, by index or by UUID.
          - UUIDs become indices when the server starts.
        type: list
        elements: str
        default: [all]
      speculative:
        description: Speculative decoding; without it the server does not speculate.
        type: dict
        suboptions:
          policy:
            description:
              - V(always) speculates, V(never) does not.
              - V(measured) speculates unless a benchmark on this host has found it slower.
            type: str
            choices: [always, measured, never]
            default: always
          algorithm:
            description: Algorithm, as SGLang names it.
            type: str
            default: EAGLE3
          draft_model_path:
            description: Folder of the draft model, or its name on the hub.
            type: str
          num_steps:
            description: Draft steps for each verify step.
            type: int
          eagle_topk:
            description: Branches kept in each draft step.
            type: int
          num_draft_tokens:
            description: Draft tokens that the target verifies at once.
            type: int
      args:
        description:
          - Any other option of the installed SGLang release by its long name, with dashes or underscores.
          - A flag takes a boolean, an option with several values a list, an option with a JSON value a dictionary.
        type: dict
        default: {}
      env:
        description: Environment variables of the server.
        type: dict
        default: {}
      secret_env:
        description: Environment variables that are secrets; kept in a file that only root reads.
        type: dict
        default: {}
      api_key:
        description: Key that users of the server must present.
        type: str
      admin_api_key:
        description: Key for the server's administrative endpoints.
        type: str
      lock:
        description: Lock that the build is made from; a shipped name or a folder of yours.
        type: str
      patches:
        description:
          - Names of the patches that the build carries.
          - With O(instances[].mode=in_place), they are brought into your own environment before the server is started.
            Other patches in it stay, so one that is no longer named is taken out with M(inferops.sglang.sglang_patch).
            A restore brings the environment back to exactly the patches of the activation that is put back.
        type: list
        elements: str
        default: []
      acknowledge:
        description: Names of findings of M(inferops.sglang.sglang_preflight) that are accepted for this instance.
        type: list
        elements: str
        default: []
      python:
        description: The interpreter of your own environment, with O(instances[].mode=in_place).
        type: path
      source:
        description: The root of an editable checkout of SGLang, with O(instances[].mode=in_place).
        type: path
      run_as:
        description:
          - System user of the server.
          - With V(root), much of the unit's hardening has no effect; use it only where an environment demands it.
        type: str
        default: sglang
      cuda_home:
        description: The CUDA toolkit of the server. By default the one of the version that the lock names.
        type: path
      drain_timeout:
        description: Seconds that running requests have to end when the server is stopped.
        type: int
        default: 120
      restart_delay:
        description: Seconds between the death of a server and its next start.
        type: int
        default: 10
      liveness_interval:
        description:
          - Seconds between looks at whether the server still generates; V(0) looks never.
          - A server without recent traffic is asked for one token. Only one that is certainly dead, or stays silent for
            longer than SGLang's own watchdog waits, is restarted.
        type: int
        default: 0
      memory_max:
        description: Limit of the server's host memory (V(64G)), as C(MemoryMax) of systemd.
        type: str
      core_dumps:
        description: Whether a crash may leave a core dump. Of a large model it takes minutes to write.
        type: bool
        default: false
      writable_paths:
        description: Folders that the server may write to beside its own.
        type: list
        elements: path
        default: []
      build:
        description: What the host must know of the build. Set by the action plugin; leave it out.
        type: dict
      definitions:
        description: The patches of your own environment, written out. Set by the action plugin; leave it out.
        type: list
        elements: dict
      agent:
        description: The host agent. Set by the action plugin; leave it out.
        type: dict
        suboptions:
          version:
            description: Version of the agent, a digest of its content.
            type: str
          path:
            description: Where its archive lies on the controller.
            type: path
"""
