"""Speculative decoding."""

from __future__ import annotations

from writing import DRAFT_FRAMES, SITE, Log

from . import Wanted, variant


@variant
def the_target_lacks_the_second_hook() -> Wanted:
    log = Log("0.5.9", tp=8, spec=True).arguments().dist().weights("KimiK25ForConditionalGeneration").pool().capture()
    log.weights("LlamaForCausalLMEagle3")
    text = "AttributeError: 'KimiK25ForConditionalGeneration' object has no attribute 'get_embed_and_head'"
    where = ("sglang/srt/speculative/eagle_worker.py", 157, "__init__", "model.get_embed_and_head()")
    line = log.hit(text, *DRAFT_FRAMES, where, rank="TP5")
    log.hit(text, *DRAFT_FRAMES, where, rank="TP1")
    return Wanted(log.sigquit(), line, "target_model_lacks_eagle3_hooks", rank="TP5")


@variant
def no_draft_path_in_the_words_of_059() -> Wanted:
    log = Log("0.5.9", spec=True).arguments(speculative_draft_model_path=None).dist().weights().pool().capture()
    log.weights("LlamaForCausalLM")
    text = "AttributeError: 'LlamaForCausalLM' object has no attribute 'set_embed'. Did you mean: 'get_embed'?"
    line = log.hit(text, *DRAFT_FRAMES)
    return Wanted(log.sigquit(), line, "spec_draft_path_missing")


@variant
def the_draft_is_no_draft() -> Wanted:
    log = Log("0.5.15", spec=True).arguments().dist().weights().weights("Qwen2ForCausalLM")
    line = log.hit("AttributeError: 'Qwen2ForCausalLM' object has no attribute 'hot_token_id'", *DRAFT_FRAMES)
    return Wanted(log.sigquit(), line, "eagle3_draft_not_a_draft")


@variant
def the_draft_knows_a_shorter_context() -> Wanted:
    log = Log("0.5.9", tp=2, spec=True).arguments().dist().weights().pool().capture()
    line = log.hit(
        "ValueError: Warning: Target model's context_length (131072) is greater than the derived context_length "
        "(2048). This may lead to incorrect model outputs or CUDA errors.",
        *DRAFT_FRAMES,
        rank="TP0",
    )
    return Wanted(log.sigquit(), line, "eagle3_draft_context_too_short", rank="TP0")


@variant
def the_target_is_asked_for_too_long_a_context() -> Wanted:
    log = Log("0.5.9")
    line = log.bare(
        "ValueError: Warning: User-specified context_length (262144) is greater than the derived context_length "
        "(131072)."
    )
    return Wanted(log, line, "context_length_too_long", unit="dead:exit=1")


@variant
def fc_of_another_target() -> Wanted:
    log = Log("0.5.23", tp=2, spec=True).arguments().dist().weights()
    log.all("Load weight begin. avail mem=60.00 GB")
    loads = ("sglang/srt/models/llama_eagle3.py", 350, "load_weights", "weight_loader(param, loaded_weight)")
    line = log.hit(
        "AssertionError: Attempted to load weight (torch.Size([2048, 6144])) into parameter "
        "(torch.Size([4096, 12288]))",
        *DRAFT_FRAMES,
        loads,
        rank="TP1",
    )
    return Wanted(log.sigquit(), line, "eagle3_draft_shape_mismatch", rank="TP1", phase="weights_draft")


@variant
def weights_of_another_target_are_no_draft() -> Wanted:
    log = Log("0.5.23").arguments().dist().weights(upto=1, ends=False).put("\n")
    loads = ("sglang/srt/models/llama.py", 350, "load_weights", "weight_loader(param, loaded_weight)")
    line = log.hit(
        "AssertionError: Attempted to load weight (torch.Size([8, 16])) into parameter (torch.Size([8, 32]))", loads
    )
    return Wanted(log.sigquit(), line, "weights_shape_mismatch", phase="weights")


@variant
def a_draft_of_two_layers() -> Wanted:
    log = Log("0.5.15", spec=True).arguments().dist().weights()
    line = log.hit("ValueError: EAGLE3 currently only supports 1 layer", *DRAFT_FRAMES)
    return Wanted(log.sigquit(), line, "eagle3_draft_layers")


@variant
def only_the_steps_are_given() -> Wanted:
    log = Log("0.5.9")
    where = ("sglang/srt/server_args.py", 2466, "_handle_speculative_decoding", "if self.speculative_eagle_topk > 1:")
    line = log.bare("TypeError: '>' not supported between instances of 'NoneType' and 'int'", where)
    return Wanted(log, line, "spec_flags_incomplete", unit="dead:exit=1", phase="args")


@variant
def only_topk_is_given() -> Wanted:
    log = Log("0.5.14")
    where = ("sglang/srt/server_args.py", 2423, "_handle_speculative_decoding", "self.speculative_eagle_topk is None")
    line = log.bare("AssertionError", where)
    return Wanted(log, line, "spec_flags_incomplete", unit="dead:exit=1", phase="args")


@variant
def only_topk_is_given_in_the_words_of_0523() -> Wanted:
    log = Log("0.5.23")
    where = ("sglang/srt/arg_groups/speculative_hook.py", 1160, "_handle_eagle", "assert (")
    line = log.bare("AssertionError", where)
    return Wanted(log, line, "spec_flags_incomplete", unit="dead:exit=1", phase="args")


@variant
def a_tree_with_a_backend_that_cannot() -> Wanted:
    log = Log("0.5.9")
    line = log.bare("ValueError: trtllm_mha backend only supports topk = 1 for speculative decoding.")
    return Wanted(log, line, "spec_options_conflict", unit="dead:exit=1")


@variant
def more_draft_tokens_than_the_tree_holds() -> Wanted:
    log = Log("0.5.9", spec=True).arguments().loaded()
    where = ("sglang/srt/speculative/eagle_utils.py", 27, "organize_draft_results", "top_scores = torch.topk(")
    line = log.hit("RuntimeError: selected index k out of range", *DRAFT_FRAMES, where)
    return Wanted(log.sigquit(), line, "spec_draft_tokens_too_many")


@variant
def the_draft_inherits_an_mla_backend() -> Wanted:
    log = Log("0.5.15", tp=2, spec=True).arguments().dist().weights().weights("LlamaForCausalLMEagle3").pool().pool()
    text = "ValueError: trtllm_mla backend can only be used with MLA models."
    line = log.hit(text, *DRAFT_FRAMES, rank="TP1")
    return Wanted(log.sigquit(), line, "eagle3_draft_attention_backend", rank="TP1", phase="draft_attention_backend")


@variant
def the_target_has_an_unfit_backend() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights()
    line = log.hit("ValueError: trtllm_mla backend can only be used with MLA models.")
    return Wanted(log.sigquit(), line, "attention_backend_unfit")


@variant
def a_target_whose_environment_lies_beside_the_models() -> Wanted:
    """A folder of the user's may be named anything."""
    log = Log("0.5.9").arguments().dist().weights()
    line = log.hit("ValueError: trtllm_mla backend can only be used with MLA models.")
    log.text = log.text.replace(SITE, "/srv/models/eagle3/venv/lib/python3.12/site-packages")
    return Wanted(log.sigquit(), line, "attention_backend_unfit")


@variant
def only_the_tokens_are_not_given() -> Wanted:
    """The arguments are taken; what works with the figure that is missing fails, far from where it was to be given."""
    log = Log("0.5.14", spec=True)
    log.arguments(speculative_num_steps=2, speculative_eagle_topk=4, speculative_num_draft_tokens=None)
    log.dist().weights().weights("LlamaForCausalLMEagle3")
    line = log.hit(
        "TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'",
        ("sglang/srt/model_executor/model_runner_kv_cache_mixin.py", 164, "_init_pools", "extra = bs * per_bs"),
    )
    return Wanted(log.sigquit(), line, "spec_flags_incomplete")


@variant
def nothing_where_all_figures_are_given() -> Wanted:
    log = Log("0.5.23", spec=True)
    log.arguments(speculative_num_steps=2, speculative_eagle_topk=4, speculative_num_draft_tokens=16).dist().weights()
    line = log.hit("TypeError: 'NoneType' object is not iterable")
    return Wanted(log.sigquit(), line, "unknown")
