"""Stands in for the nine helpers that SGLang 0.5.23 takes from its kernel package when it runs on a CPU.

Plain torch, made for a handful of requests to a tiny model. Signatures and meaning follow the call sites in
``sglang/kernels/ops/{kvcache,speculative}`` and ``sglang/srt/mem_cache/allocation.py``: results are written into the
tensors that the caller passes. None of the AMX kernels is here, so SGLang keeps to its torch-native layers.
"""

from __future__ import annotations

import ctypes
from typing import Optional

from torch import Tensor, arange

#: ``TreeMaskMode`` of ``sglang/srt/speculative/eagle_utils.py``: a row over context and draft tokens, or draft only.
_FULL_MASK, _QLEN_ONLY = 0, 1


def assign_req_to_token_pool_cpu(
    requests: Tensor, req_to_token: Tensor, starts: Tensor, ends: Tensor, out_cache_loc: Tensor, pool_len: int
) -> None:
    """Write the slots in ``out_cache_loc``, request after request, into columns start to end of the request's row."""
    used = 0
    for row, start, end in zip(requests.tolist(), starts.tolist(), ends.tolist()):
        slots = out_cache_loc[used : used + end - start]
        req_to_token[row, start:end] = slots.to(req_to_token.dtype)
        used += end - start


def assign_extend_cache_locs_cpu(
    requests: Tensor, req_to_token: Tensor, starts: Tensor, ends: Tensor, out_cache_loc: Tensor, pool_len: int
) -> None:
    """The other way round: gather columns start to end of each request's row into ``out_cache_loc``."""
    used = 0
    for row, start, end in zip(requests.tolist(), starts.tolist(), ends.tolist()):
        out_cache_loc[used : used + end - start] = req_to_token[row, start:end].to(out_cache_loc.dtype)
        used += end - start


def assign_draft_cache_locs_contiguous_cpu(
    requests: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
    topk: int,
    num_cols: int,
) -> None:
    """The ``topk * num_cols`` slots that follow each request's sequence, one request after the other."""
    ends = seq_lens + topk * num_cols
    assign_extend_cache_locs_cpu(requests, req_to_token, seq_lens, ends, out_cache_loc, pool_len)


def fill_bonus_tokens_cpu(accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, stride: int) -> None:
    """The last accepted token of each request; a request owns ``stride`` cells of ``accept_tokens``."""
    rows = arange(accept_lens.numel())
    last = rows * stride + accept_lens.long() - 1
    bonus_tokens[rows] = accept_tokens.reshape(-1)[last].to(bonus_tokens.dtype)


def fill_accept_out_cache_loc_cpu(accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor) -> None:
    """The slots of the accepted tokens, packed to the front; an index of -1 marks a token that was not accepted."""
    accepted = accept_index[accept_index > -1].long()
    accept_out_cache_loc[: accepted.numel()] = out_cache_loc[accepted].to(accept_out_cache_loc.dtype)


def rotate_input_ids_cpu(
    input_ids: Tensor, starts: Tensor, lengths: Tensor, topk_index: Tensor, select_index: Optional[Tensor] = None
) -> None:
    """Shift each request's tokens one to the left and put its new token last, or where ``select_index`` says."""
    fresh = topk_index.reshape(-1)
    for request, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist())):
        if length == 0:
            continue
        end = start + length
        input_ids[start : end - 1] = input_ids[start + 1 : end].clone()
        input_ids[end - 1 if select_index is None else int(select_index[request])] = fresh[request]


def copy_all_layer_kv_cache_cpu(data_ptrs: Tensor, strides: Tensor, targets: Tensor, sources: Tensor) -> None:
    """Copy slots of the KV cache in every layer's buffer, given by address and bytes a slot. Targets may overlap
    sources, so all are read before any is written."""
    for address, size in zip(data_ptrs.tolist(), strides.tolist()):
        slots = [ctypes.string_at(address + source * size, size) for source in sources.tolist()]
        for target, content in zip(targets.tolist(), slots):
            ctypes.memmove(address + target * size, content, size)


def build_tree_kernel_efficient_cpu(
    parent_list: Tensor,
    selected_index: Tensor,
    seq_lens: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    topk: int,
    depth: int,
    num_verify_tokens: int,
    tree_mask_mode: int,
) -> None:
    """Lay out the draft tree of each request: who descends from whom, at which position, and who may see whom.

    Token 0 of a request is the root (the last token that was verified). The caller has filled ``retrive_next_*`` with
    -1 and the context part of a full mask with true.
    """
    mode = int(tree_mask_mode)
    if mode not in (_FULL_MASK, _QLEN_ONLY):
        raise NotImplementedError(f"the CPU stand-in of sgl_kernel knows no tree mask mode {mode}")
    count = num_verify_tokens
    mask_start = 0
    for request, context in enumerate(seq_lens.tolist()):
        parents = _parents(parent_list[request].tolist(), selected_index[request].tolist(), topk, count)
        retrive_index[request, :count] = arange(request * count, (request + 1) * count)
        # from the last to the first, so that each becomes the head of its parent's list and the first stays in front
        for token in range(count - 1, 0, -1):
            parent = parents[token]
            retrive_next_sibling[request, token] = retrive_next_token[request, parent]
            retrive_next_token[request, parent] = token
        seen = context if mode == _FULL_MASK else 0
        cells = tree_mask[mask_start : mask_start + count * (seen + count)].view(count, seen + count)
        mask_start += count * (seen + count)
        cells[:, seen:] = False
        for token in range(count):
            ancestors = [token]
            while ancestors[-1] != 0:
                ancestors.append(parents[ancestors[-1]])
            cells[token, [seen + ancestor for ancestor in ancestors]] = True
            positions[request * count + token] = context + len(ancestors) - 1


def _parents(parent_list: list[int], selected: list[int], topk: int, count: int) -> list[int]:
    """The parent of every token in the tree; the root's own entry means nothing.

    ``selected`` names the chosen candidates; candidate ``c`` was proposed by entry ``c // topk`` of ``parent_list``,
    which is itself a candidate (entry 0: the root).
    """
    parents = [0]
    for token in range(1, count):
        proposer = selected[token - 1] // topk
        parents.append(0 if proposer == 0 else selected.index(parent_list[proposer]) + 1)
    return parents


def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Follow each tree from its root as long as a child is the token that the target predicts; note the path taken and
    the target's prediction at each step of it (the last one is the bonus token)."""
    predicted = target_predict.reshape(-1).tolist()
    for request in range(candidates.shape[0]):
        node, steps = 0, 0
        flat = int(retrive_index[request, 0])
        accept_index[request, 0] = flat
        predicts[flat] = predicted[flat]
        while steps + 1 < accept_index.shape[1]:
            node = int(retrive_next_token[request, node])
            while node != -1 and int(candidates[request, node]) != predicted[flat]:
                node = int(retrive_next_sibling[request, node])
            if node == -1:
                break
            steps += 1
            flat = int(retrive_index[request, node])
            accept_index[request, steps] = flat
            predicts[flat] = predicted[flat]
        accept_token_num[request] = steps
