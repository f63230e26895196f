#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: sglang_log_info
short_description: Say what the log of an SGLang server means
version_added: "0.1.0"
description:
  - Reads the log of one start of an SGLang server and says whether it is ready, failed, stalled, still starting or was
    stopped, and which line is the cause.
  - The cause is the first root exception by rank, not the last line, and not what other ranks say about it. Lines that
    look bad and mean nothing (import errors of other models, the dump of the server's arguments) are passed over.
  - It is the same engine that M(inferops.sglang.sglang_ready) and the host agent use.
extends_documentation_fragment:
  - inferops.sglang.attributes.reader
options:
  path:
    description:
      - A log file on the host.
      - Exactly one of O(path) and O(instance) is required.
    type: path
  instance:
    description: The name of an instance whose log is to be read.
    type: str
  invocation:
    description:
      - The start of O(instance) that is meant, by systemd's invocation ID, the name of its log file.
      - By default the present start, or the last one where none runs.
    type: str
  unit_state:
    description:
      - What systemd said of the unit at O(observed_at), V(active), V(activating), V(activating:auto-restart),
        V(inactive), C(dead:exit=N) or C(dead:signal=NAME).
      - By default, with O(instance), what systemd says now; with O(path) it is not known, so that a verdict must come
        from the log alone.
    type: str
  observed_at:
    description:
      - The moment of looking, on the log's clock (C(2026-11-20 10:01:04)) or in Unix seconds.
      - A start that has been silent for long at that moment is stalled. Without it, a file is not judged by silence.
    type: str
  started_at:
    description:
      - When the start that is meant began. What a log file that is appended to holds from before is passed over.
      - By default a new start is recognised by its words.
    type: str
seealso:
  - module: inferops.sglang.sglang_ready
author:
  - The inferops.sglang authors (@inferops)
"""

EXAMPLES = r"""
- name: Why did it die?
  inferops.sglang.sglang_log_info:
    instance: kimi
  register: kimi_log

- name: Say it
  ansible.builtin.debug:
    msg: "{{ kimi_log.category }}: {{ kimi_log.cause.line }} ({{ kimi_log.hint }})"

- name: Judge a log that someone sent
  inferops.sglang.sglang_log_info:
    path: /tmp/server.log
    unit_state: dead:signal=KILL
    observed_at: "2026-11-20 14:01:33"
"""

RETURN = r"""
verdict:
  description: V(ready), V(failed), V(stalled), V(still_starting) or V(stopped).
  type: str
  returned: success
  sample: failed
category:
  description: What is the matter, by the names of the troubleshooting guide; V(none) for a server that serves.
  type: str
  returned: success
  sample: cuda_oom_foreign_process
cause:
  description: The line that says it best, whole (after its last carriage return), and its number in the file.
  type: dict
  returned: success
  contains:
    line:
      description: The line.
      type: str
      returned: always
    number:
      description: Its number, counted from 1 by newlines.
      type: int
      returned: always
  sample: {"line": "RuntimeError: 0 active drivers ([]). There should only be one.", "number": 110}
rank:
  description: The rank whose line it is, as the log names it; V(null) for the main process or a single rank.
  type: str
  returned: success
  sample: TP2
phase:
  description: The phase of the start in which it happened.
  type: str
  returned: success
  sample: weights
hint:
  description: What to do.
  type: str
  returned: success
  sample: Find and end the other process (gpu_info names it, gpu_drain ends it), then start again.
findings:
  description: What is worth knowing beside the verdict.
  type: list
  elements: str
  returned: success
  sample: ["stop_requested: a stop was asked for (line 68)"]
excerpt:
  description: The first lines of the exception, or the last lines of a log that names nothing.
  type: list
  elements: str
  returned: success
  sample: ["RuntimeError: 0 active drivers ([]). There should only be one."]
was_ready:
  description: Whether the server had been ready before it came to this verdict.
  type: bool
  returned: success
  sample: false
ranks:
  description: Which rank has C(begun) or C(done) which phase.
  type: dict
  returned: success
  sample: {"TP0": {"dist_init": "done", "weights": "begun"}}
progress:
  description: The progress bar of a start under way, with its C(label), C(done), C(total), C(percent), C(eta_s).
  type: dict
  returned: success
  sample: {"label": "Multi-thread loading shards", "done": 23, "total": 64, "percent": 35, "eta_s": 410.0}
log:
  description: The file that was read.
  type: str
  returned: success
  sample: /var/log/sglang/kimi/4f0d0d5a8a9b4b0e8d5c2f6a7b8c9d0e.log
invocation:
  description: The start that was read.
  type: str
  returned: with O(instance)
  sample: 4f0d0d5a8a9b4b0e8d5c2f6a7b8c9d0e
unit_state:
  description: The unit state that the verdict rests on.
  type: str
  returned: with O(instance)
  sample: active
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import inspect


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "instance": {"type": "str"},
            "invocation": {"type": "str"},
            "unit_state": {"type": "str"},
            "observed_at": {"type": "str"},
            "started_at": {"type": "str"},
        },
        required_one_of=[("path", "instance")],
        mutually_exclusive=[("path", "instance"), ("path", "invocation"), ("instance", "started_at")],
        required_by={"invocation": ["instance"]},
        supports_check_mode=True,
    )
    given = {key: value or "" for key, value in module.params.items()}

    def logic() -> dict[str, object]:
        state, at = given["unit_state"], given["observed_at"]
        if given["path"]:
            return {"changed": False, **inspect.of_file(given["path"], state, at, given["started_at"])}
        runner = adapter.runner_of(module)
        return {"changed": False, **inspect.of_instance(runner, given["instance"], given["invocation"], state, at)}

    adapter.finish(module, logic)


if __name__ == "__main__":
    main()
