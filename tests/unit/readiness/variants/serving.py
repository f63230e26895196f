"""The command line, the port, the warm-up, serving, stopping."""

from __future__ import annotations

from writing import MAIN_FRAMES, SITE, Log, frames

from . import Wanted, variant


@variant
def an_unknown_option_of_launch_server() -> Wanted:
    log = Log("0.5.9").raw("usage: launch_server.py [-h] --model-path MODEL_PATH", "                        [--error]")
    line = log.lines
    log.raw("launch_server.py: error: unrecognized arguments: --cuda-graph-max-bz=8")
    return Wanted(log, line, "unknown_option", unit="dead:exit=2")


@variant
def an_ambiguous_option() -> Wanted:
    log = Log("0.5.23").raw("usage: sglang serve [-h] --model-path MODEL_PATH")
    log.raw("sglang serve: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, ...")
    return Wanted(log, 2, "unknown_option", unit="dead:exit=2")


@variant
def an_invalid_choice() -> Wanted:
    log = Log("0.5.15").raw("usage: launch_server.py [-h]")
    log.raw("launch_server.py: error: argument --attention-backend: invalid choice: 'foo' (choose from 'triton')")
    return Wanted(log, 2, "unknown_option", unit="dead:exit=2")


@variant
def the_port_is_taken_by_another_program() -> Wanted:
    log = Log("0.5.14").arguments().loaded().say("INFO:     Started server process [4121]")
    line = log.lines
    log.say("ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use")
    log.say("INFO:     Waiting for application shutdown.").later(120)
    log.say("Initialization failed. warmup error: Traceback (most recent call last):").raw(*frames(base=MAIN_FRAMES))
    log.raw("AssertionError: res=<Response [404]>, res.text='not found'", "")
    return Wanted(log, line, "http_port_in_use", unit="active", phase="http_bind")


@variant
def the_warm_up_goes_through_a_proxy() -> Wanted:
    log = Log("0.5.9").arguments().loaded().http().later(120)
    log.say("Initialization failed. warmup error: Traceback (most recent call last):")
    log.raw(
        f'  File "{SITE}/sglang/srt/entrypoints/http_server.py", line 1679, in _execute_server_warmup',
        '    assert res.status_code == 200, f"{res=}, {res.text=}"',
        "           ^^^^^^^^^^^^^^^^^^^^^^",
    )
    line = log.lines
    log.raw("AssertionError: res=<Response [502]>, res.text='<html>Bad Gateway</html>'", "", "Killed")
    return Wanted(log, line, "warmup_via_http_proxy", phase="warmup")


@variant
def the_proxy_refuses_the_warm_up() -> Wanted:
    log = Log("0.5.23").arguments().loaded().http().later(120)
    log.say("Initialization failed. warmup error: Traceback (most recent call last):")
    log.raw(f'  File "{SITE}/requests/adapters.py", line 694, in send', "    raise ProxyError(e, request=request)")
    line = log.lines
    log.raw(
        "requests.exceptions.ProxyError: HTTPConnectionPool(host='proxy', port=3128): Max retries exceeded with url: "
        "http://0.0.0.0:30000/model_info (Caused by ProxyError('Cannot connect to proxy.'))",
        "",
    )
    return Wanted(log, line, "warmup_via_http_proxy", phase="warmup")


@variant
def the_warm_up_itself_fails() -> Wanted:
    log = Log("0.5.9").arguments().loaded().http()
    log.say("Initialization failed. warmup error: Traceback (most recent call last):").raw(*frames(base=MAIN_FRAMES))
    line = log.lines
    log.raw("AssertionError: {'error': {'message': 'Internal Server Error'}}", "")
    return Wanted(log, line, "warmup_failed", phase="warmup")


@variant
def the_host_has_no_such_address() -> Wanted:
    log = Log("0.5.15").arguments().loaded().say("INFO:     Started server process [4121]")
    line = log.lines
    log.say(
        "ERROR:    [Errno 99] error while attempting to bind on address ('10.1.2.3', 30000): cannot assign requested"
    )
    return Wanted(log, line, "http_bind_failed", unit="dead:exit=3")


@variant
def the_driver_was_updated_under_the_kernel() -> Wanted:
    log = Log("0.5.9")
    line = log.bare("RuntimeError: Failed to initialize NVML: Driver/library version mismatch")
    return Wanted(log, line, "driver_library_mismatch", unit="dead:exit=1")


@variant
def a_package_of_another_release_was_left() -> Wanted:
    log = Log("0.5.16")
    line = log.bare("RuntimeError: flashinfer-cubin version (0.6.3) does not match flashinfer version (0.6.12). Please")
    return Wanted(log, line, "package_versions_conflict", unit="dead:exit=1")


@variant
def the_kernel_package_is_too_old() -> Wanted:
    log = Log("0.5.23")
    line = log.bare(
        "Exception: sglang-kernel is installed with version 0.4.4, which is less than the minimum required version "
        "0.4.9. Please reinstall the latest version"
    )
    return Wanted(log, line, "package_versions_conflict", unit="dead:exit=1")


@variant
def two_packages_do_not_fit() -> Wanted:
    log = Log("0.5.15")
    line = log.bare("ImportError: cannot import name 'AutoProcessor' from 'transformers' (/x/transformers/__init__.py)")
    return Wanted(log, line, "import_error", unit="dead:exit=1")


@variant
def a_model_type_that_transformers_does_not_know() -> Wanted:
    log = Log("0.5.9")
    line = log.bare(
        "ValueError: The checkpoint you are trying to load has model type `future` but Transformers does not recognize "
        "this architecture. This could be because of an issue with the checkpoint, or because your version is old."
    )
    return Wanted(log, line, "architecture_unknown", unit="dead:exit=1")


@variant
def a_tokenizer_that_cannot_be_read() -> Wanted:
    log = Log("0.5.15").arguments()
    where = ("sglang/srt/utils/hf_transformers_utils.py", 300, "get_tokenizer", "tokenizer = AutoTokenizer.from_pre")
    line = log.bare("Exception: data did not match any variant of untagged enum ModelWrapper at line 1 column 3", where)
    return Wanted(log, line, "tokenizer_broken", unit="dead:exit=1")


@variant
def a_collective_that_a_rank_never_reached() -> Wanted:
    log = Log("0.5.9", tp=2).ready().batch().later(600)
    line = log.lines
    log.raw(
        "[rank0]:[E1120 10:32:21.841211362 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600010 milliseconds before."
    )
    return Wanted(log, line, "dist_timeout", rank="TP0", phase="serving")


@variant
def the_watchdog_of_a_hung_forward() -> Wanted:
    log = Log("0.5.15", tp=2).ready().batch().later(300)
    line = log.lines
    log.say("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "TP1").raw("", "")
    log.later(5).say("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    return Wanted(log, line, "forward_hang_watchdog", rank="TP1", phase="serving")


@variant
def a_soft_watchdog_only_speaks() -> Wanted:
    log = Log("0.5.15").ready()
    line = log.lines - 1
    log.later(300).say("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)").batch()
    return Wanted(log, line, "none", "ready", unit="active")


@variant
def an_exception_after_ready() -> Wanted:
    log = Log("0.5.17").ready().batch()
    line = log.hit("RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronous")
    log.say("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    return Wanted(log, line, "cuda_error", phase="serving")


@variant
def an_exception_after_ready_while_systemd_says_active() -> Wanted:
    log = Log("0.5.9").ready().batch()
    line = log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.")
    return Wanted(log, line, "cuda_oom", unit="active", phase="serving")


@variant
def the_detokenizer_dies() -> Wanted:
    log = Log("0.5.15").ready().batch()
    line = log.hit("ValueError: something about an id", who="DetokenizerManager")
    return Wanted(log, line, "detokenizer_died", phase="serving")


@variant
def a_stop_that_was_asked_for() -> Wanted:
    log = Log("0.5.13").ready().batch()
    line = log.lines
    log.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...").batch().later(3)
    log.say("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
    log.say("kill_process_tree called: parent_pid=22730, include_parent=True, pid=22730")
    return Wanted(log, line, "stopped_by_request", "stopped")


@variant
def a_stop_whose_shutdown_is_noisy() -> Wanted:
    log = Log("0.5.9", tp=2).ready().batch()
    line = log.lines
    log.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...").later(3)
    log.hit("EOFError", rank="TP1")
    log.raw("/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear")
    return Wanted(log, line, "stopped_by_request", "stopped")


@variant
def a_stop_in_the_middle_of_loading() -> Wanted:
    log = Log("0.5.9").arguments().dist().weights(upto=2, ends=False)
    return Wanted(log, log.lines - 1, "stopped_by_request", "stopped", unit="dead:signal=TERM")


@variant
def a_crash_and_then_a_stop() -> Wanted:
    log = Log("0.5.9").ready()
    line = log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.")
    log.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    return Wanted(log, line, "cuda_oom", phase="serving")


@variant
def systemd_is_about_to_start_it_again() -> Wanted:
    log = Log("0.5.15").arguments().dist()
    line = log.hit("ModuleNotFoundError: No module named 'xgrammar'")
    return Wanted(log.sigquit(), line, "python_module_missing", unit="activating:auto-restart")


@variant
def something_new() -> Wanted:
    log = Log("0.5.23", tp=2).arguments().dist().weights()
    line = log.hit("quokka.FluxError: the flux is inverted", rank="TP1")
    log.hit("quokka.FluxError: the flux is inverted", rank="TP0")
    return Wanted(log.sigquit(), line, "unknown", rank="TP1", phase="kv_pool")


@variant
def the_port_of_several_workers_is_taken() -> Wanted:
    """No word of uvicorn's: the socket is bound before it is handed to them."""
    log = Log("0.5.23").arguments(tokenizer_worker_num=4).loaded()
    line = log.lines
    log.say("[Errno 98] Address already in use")
    log.say("kill_process_tree called: parent_pid=4100, include_parent=False, pid=4100")
    return Wanted(log, line, "http_port_in_use", unit="dead:exit=1")
