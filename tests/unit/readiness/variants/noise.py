"""What looks bad and is not, or looks well and is not."""

from __future__ import annotations

from writing import MAIN_FRAMES, Log, frames

from . import Wanted, variant


@variant
def much_noise_and_a_good_start() -> Wanted:
    log = Log("0.5.18", tp=2, spec=True)
    log.raw("Skipping import of cpp extensions due to incompatible torch version 2.13.0 for torchao version 0.9.0")
    log.arguments(served_model_name="Traceback (most recent call last): RuntimeError: killed [Errno 98]")
    log.all("Ignore import error when loading sglang.srt.models.glm4v_moe: No module named 'vllm'")
    log.say("Failed to load generation config for /srv/models/draft: no file named generation_config.json")
    log.raw("[rank0]:[W1120 10:00:29.903330880 ProcessGroupGloo.cpp:727] Warning: Unable to resolve hostname")
    log.say("Using default MoE kernel config. Performance might be sub-optimal!", "TP0")
    log.say("kill_process_tree called: parent_pid=1, include_parent=False, pid=2").loaded().http()
    log.say("post-warmup freeze_gc failed").raw("Traceback (most recent call last):", *frames(base=MAIN_FRAMES))
    log.raw("requests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=30000): Read timed out.")
    log.fired_up()
    line = log.lines - 1
    log.raw("ERROR:    Exception in ASGI application", "Traceback (most recent call last):", *frames(base=MAIN_FRAMES))
    log.raw("starlette.requests.ClientDisconnect")
    return Wanted(log, line, "none", "ready", unit="active", phase="serving")


@variant
def colours_and_milliseconds() -> Wanted:
    log = Log("0.5.14").arguments()
    log.raw("[2026-11-20 10:00:21.042 TP0] \x1b[1;33mInit torch distributed begin.\x1b[0m")
    log.raw("[2026-11-20 10:00:22.042 TP0] Init torch distributed ends. elapsed=0.45 s")
    line = log.lines
    log.raw("[2026-11-20 10:00:23.042 TP0] Load weight begin. avail mem=137.66 GB")
    return Wanted(log, line, "loading_weights", "still_starting", unit="active", phase="weights")


@variant
def a_record_that_is_glued_to_a_bar() -> Wanted:
    log = Log("0.5.14", tp=2).arguments().dist().weights().pool().capture(upto=0, ends=False)
    line = log.lines
    log.all("Registering 0 cuda graph addresses")
    return Wanted(
        log,
        line,
        "capture_error_hidden_by_custom_allreduce",
        "stalled",
        rank="TP0",
        unit="active",
        phase="graph_capture",
        after=5,
    )


@variant
def a_capture_that_registers_nothing_and_is_complete() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().weights().pool().capture(upto=2, ends=False).put("\n")
    line = log.lines + 1
    log.all("Registering 0 cuda graph addresses")
    return Wanted(log, line, "capturing_graphs", "still_starting", unit="active", after=5)


@variant
def weights_that_load_for_an_hour() -> Wanted:
    log = Log("0.5.23", tp=8).arguments().dist().all("Load weight begin. avail mem=177.40 GB")
    line = log.lines
    for done in range(40):
        log.put(f"\rMulti-thread loading shards: {done}% Completed | {done}/99 [{done * 1.5:02.0f}:00<90:00, 90.0s/it]")
    return Wanted(log, line, "loading_weights", "still_starting", unit="active", phase="weights", after=3540)


@variant
def one_rank_stays_behind_in_weights() -> Wanted:
    log = Log("0.5.15", tp=4).arguments().dist().all("Load weight begin. avail mem=177.40 GB")
    line = log.lines - 2
    for rank in ("TP0", "TP1", "TP3"):
        log.say("Load weight end. elapsed=8.31 s, type=LlamaForCausalLM", rank)
    return Wanted(log, line, "stalled", "stalled", unit="active", rank="TP2", phase="weights", after=3600)
