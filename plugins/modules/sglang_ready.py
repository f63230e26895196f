#!/usr/bin/python
# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: sglang_ready
short_description: Wait until an SGLang server really serves, or say why it does not
version_added: "0.1.0"
description:
  - Follows the present start of an instance, its log byte by byte, its process tree and its API together, and returns
    as soon as there is a verdict.
  - Ready means that the unit's own processes own the port, its schedulers live, and real generations came back, one
    greedy token (of each data-parallel rank), with speculative decoding one sampled request too, then O(soak) more. It
    never rests on an open port, on C(/health), or on the server's own "fired up" alone.
  - Failed is known at once, with the one line that is the cause. Stalled means that nothing moves that should move in
    this phase, as opposed to slow.
  - While it waits, one line a host is shown on a change of phase or every 15 seconds.
  - The activation that was started is marked good or failed by the outcome, which a later restore goes by, and the
    first wait that sees a start serve keeps its timeline for status and summaries. That is all that it changes. Servers
    are started by systemd too, at boot and after a crash; such a start counts as a change once.
  - In check mode nothing is waited for and the server is asked nothing. C(changed) foretells what would be noted, with
    a start that is still under way taken to end well.
  - On a host of a replica over several hosts that is not the first one (C(node_rank) 1 and up) there is no tokenizer,
    so nothing can be asked for, and C(/health) is V(200) whatever happens. There, ready means that the server said so
    and that its workers live, and no generation is returned.
extends_documentation_fragment:
  - inferops.sglang.attributes
  - inferops.sglang.run
options:
  instance:
    description: The name of the instance.
    type: str
    required: true
  timeout:
    description: Seconds to wait for.
    type: int
    default: 1800
  extend_while_progressing:
    description: Whether to wait on after O(timeout) as long as there is real progress, up to O(max_timeout).
    type: bool
    default: true
  max_timeout:
    description: Seconds after which the wait ends, progress or not. By default four times O(timeout).
    type: int
  stall_timeout:
    description:
      - Seconds without any evidence of progress after which the start is stalled.
      - By default 180, during graph capture 300, during the warm-up 240; 900 where several hosts start together, for
        each waits for the slowest.
    type: int
  soak:
    description:
      - So many more short generations must come back before the server counts as ready.
      - Use 150 or more for a restart over a server that was killed; some leftovers show only then.
    type: int
    default: 0
  mark:
    description:
      - Whether the activation is marked by the outcome. A measurement of something that is not to stay does not mark
        it, and a restore then puts back what served before.
    type: bool
    default: true
  progress:
    description: A file that tells what is being done, a line a step. Set by the action plugin.
    type: path
notes:
  - Run it as root. The log, the API key of the server and the processes of its user must be readable.
  - When the play is interrupted, the module ends by itself within seconds and leaves nothing behind.
seealso:
  - module: inferops.sglang.sglang_log_info
  - module: inferops.sglang.sglang_server
author:
  - The inferops.sglang authors (@inferops)
"""

EXAMPLES = r"""
- name: Wait until it serves
  inferops.sglang.sglang_ready:
    instance: kimi

- name: Wait for a model of half a terabyte, and be sure of it
  inferops.sglang.sglang_ready:
    instance: kimi
    timeout: 3600
    soak: 150
"""

RETURN = r"""
state:
  description:
    - V(ready), V(failed), V(stalled), V(stopped) or V(timeout).
    - In check mode, in which nothing is waited for, also V(still_starting), and V(deferred) for a server that does not
      run yet.
  type: str
  returned: always
  sample: ready
phases:
  description: The timeline of the start, by the log's clock.
  type: list
  elements: dict
  returned: always
  contains:
    name:
      description: The phase.
      type: str
      returned: always
    started:
      description: Seconds from the start.
      type: float
      returned: always
    seconds:
      description: How long it took, V(null) for the last one.
      type: float
      returned: always
  sample: [{"name": "weights", "started": 24.0, "seconds": 203.0}]
ready_after_s:
  description:
    - Seconds from the start to the first generated token, or, where none can be asked for, to the server's own word.
  type: float
  returned: when it is ready
  sample: 243.518
first_generation:
  description: The first greedy token, its C(seconds) and C(text), and the Unix time C(at) which it came back.
  type: dict
  returned: when a token came back
  sample: {"seconds": 0.06, "text": " Paris", "at": 1795968474.153}
generation:
  description: The text of a greedy generation, sixteen tokens with speculative decoding and one without.
  type: str
  returned: when a token came back
  sample: " Paris"
sampled_generation:
  description: The sampled request, its C(seconds) and C(text).
  type: dict
  returned: with speculative decoding
  sample: {"seconds": 0.17, "text": " Paris, a city of"}
soak:
  description: How many C(requests) came back, and the C(slowest_s).
  type: dict
  returned: with O(soak)
  sample: {"requests": 150, "slowest_s": 0.21}
speculative:
  description:
    - The speculative options in force, C(accept_length) (mean tokens of a verify step in a greedy request) and
      C(most), what it could be at best.
    - C(warning) says that the draft is hardly ever right.
  type: dict
  returned: with speculative decoding
  sample: {"algorithm": "EAGLE3", "num_steps": 2, "accept_length": 1.9, "most": 3}
failure:
  description: The diagnosis of a server that is not ready, with the fields of M(inferops.sglang.sglang_log_info).
  type: dict
  returned: always
  contains:
    category:
      description: What is the matter, by the names of the troubleshooting guide.
      type: str
      returned: always
    cause:
      description: The C(line) that says it best and its C(number) in the log.
      type: dict
      returned: always
    rank:
      description: The rank whose line it is.
      type: str
      returned: always
    phase:
      description: The phase in which it happened.
      type: str
      returned: always
    hint:
      description: What to do.
      type: str
      returned: always
    excerpt:
      description: Lines around the cause.
      type: list
      elements: str
      returned: always
    ranks:
      description: Which rank has C(begun) or C(done) which phase.
      type: dict
      returned: always
    stacks:
      description: Of a stalled server, the state of its processes and, where py-spy is in the build, their stacks.
      type: list
      elements: str
      returned: always
  sample: {"category": "http_port_in_use", "phase": "http_bind"}
findings:
  description: What is worth knowing beside the verdict.
  type: list
  elements: str
  returned: always
  sample: ["stop_requested: a stop was asked for (line 68)"]
waited_s:
  description: Seconds that the module waited.
  type: float
  returned: outside of check mode
  sample: 243.6
cpu_s:
  description: Seconds of processor time that the waiting cost the host.
  type: float
  returned: outside of check mode
  sample: 0.41
verdict_at:
  description: When the verdict was known, in Unix seconds of the host.
  type: float
  returned: outside of check mode
  sample: 1795968474.153
invocation:
  description: The start that was followed, by systemd's invocation ID.
  type: str
  returned: outside of check mode
  sample: 4f0d0d5a8a9b4b0e8d5c2f6a7b8c9d0e
log:
  description: Its log.
  type: str
  returned: outside of check mode
  sample: /var/log/sglang/kimi/4f0d0d5a8a9b4b0e8d5c2f6a7b8c9d0e.log
deferred:
  description: In check mode, what cannot be known before the server runs.
  type: list
  elements: str
  returned: in check mode, when the server does not run
  sample: ["sglang-kimi.service does not run yet"]
"""

import sys

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.inferops.sglang.plugins.module_utils import adapter
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import ready
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.watch import Options
from ansible_collections.inferops.sglang.plugins.module_utils.server import lease


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 1800},
            "extend_while_progressing": {"type": "bool", "default": True},
            "max_timeout": {"type": "int"},
            "stall_timeout": {"type": "int"},
            "soak": {"type": "int", "default": 0},
            "mark": {"type": "bool", "default": True},
            "progress": {"type": "path"},
            "run": {"type": "dict", "options": lease.RUN},
        },
        supports_check_mode=True,
    )
    given, runner = module.params, adapter.runner_of(module)
    options = Options(
        timeout=given["timeout"],
        stall_timeout=given["stall_timeout"],
        extend_while_progressing=given["extend_while_progressing"],
        max_timeout=given["max_timeout"] or 4 * given["timeout"],
        soak=given["soak"],
        hangup=sys.stdout.fileno(),
    )
    if module.check_mode:
        adapter.finish(module, lambda: ready.look(runner, given["instance"], mark=given["mark"]))
    adapter.finish(
        module,
        lambda: ready.wait(
            runner, given["instance"], options, given["progress"] or "", mark=given["mark"], run=given["run"]
        ),
    )


if __name__ == "__main__":
    main()
