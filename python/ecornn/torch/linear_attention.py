"""Linear attention with the functions and arguments of flash-linear-attention, on a CPU.

Each function is a row of a table.  A run does all of it: exp of the gates, which are logarithms here,
the scale and the norms are in the text of the rule.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import sys

import torch

from . import _linear

# Parts of x with their sizes, and the lines of a step; key and query are k and q with norm and scale.
_CORRECTED = "S' = A + outer(key, beta * (v - A^T key))"
_RULES = {
    "delta_rule": ("q[K], k[K], v[V], beta[1]", "A = S", _CORRECTED),
    "gated_delta_rule": ("q[K], k[K], v[V], g[1], beta[1]", "A = exp(g) * S", _CORRECTED),
    "kda": ("q[K], k[K], v[V], g[K], beta[1]", "A = exp(g) * S", _CORRECTED),
    "simple_gla": ("q[K], k[K], v[V], g[1]", "S' = exp(g) * S + outer(key, v)"),
    "gla": ("q[K], k[K], v[V], g[K]", "S' = exp(g) * S + outer(key, v)"),
    "rwkv7": ("r[K], w[K], k[K], v[V], a[K], b_[K]",
              "S' = exp(w) * S + outer(b_, S^T a) + outer(key, v)"),
}
_OPTIONS = {"scale": None, "initial_state": None, "output_final_state": False}
_NORM = {"use_qk_l2norm_in_kernel": False}


def _text(rule: str, scale: float, norm: bool) -> str:
    parts, *lines = _RULES[rule]
    query = parts[0]
    by = f"{scale!r} / sqrt(dot({query}, {query}) + 1e-6)" if norm else repr(scale)
    key = "k * (1 / sqrt(dot(k, k) + 1e-6))" if norm else "k"
    return "\n".join([f"cell {rule.replace('_', '-')}(y, S[K,V]; {parts})", f"query = {query} * ({by})",
                      f"key = {key}", *lines, "y' = S'^T query", ""])


def _function(name: str, renamed=("", ""), **options):
    """A function of the rule that its name ends with.  renamed: one of the parts, and its name here;
    options: those after its parts, with defaults."""
    rule = next(rule for rule in _RULES if name in (f"chunk_{rule}", f"fused_recurrent_{rule}"))
    sizes = [part[:-1].split("[") for part in _RULES[rule][0].split(", ")]
    sizes = {renamed[1] if part == renamed[0] else part: size for part, size in sizes}
    parts, options = list(sizes), {**_OPTIONS, **options, "cu_seqlens": None}
    names = [*parts, *_OPTIONS]  # those that may go without a name: fla has had the others in two orders

    def function(*arguments, **named):
        given = {**options, **dict(zip(names, arguments)), **named}
        if len(arguments) > len(names) or set(named) & set(names[:len(arguments)]) or (
                set(given) != {*parts, *options}):
            raise TypeError(f"{name}{signature} got {len(arguments)} arguments and {list(named)}")
        tensors = [given[part] for part in parts]
        for part, one in zip(parts, tensors):
            if not isinstance(one, torch.Tensor):
                raise TypeError(f"{part} is {type(one).__name__}, must be a tensor")
        scale, kind = given["scale"], tensors[0].dtype
        scale = tensors[0].shape[-1] ** -0.5 if scale is None else float(scale)
        text = _text(rule, scale, bool(given.get("use_qk_l2norm_in_kernel")))
        if not math.isfinite(scale):
            raise ValueError(f"scale is {scale}, must be finite")
        state, wide = given["initial_state"], torch.float64 in [one.dtype for one in tensors]
        state = state if state is None else state.double() if wide else state.float()
        y, final = _linear.run(text, tensors, state, given["cu_seqlens"],
                               bool(given["output_final_state"]))
        return y.to(kind), final

    kinds = inspect.Parameter
    signature = inspect.Signature([
        kinds(one, kinds.POSITIONAL_OR_KEYWORD if one in names else kinds.KEYWORD_ONLY,
              default=options.get(one, kinds.empty)) for one in (*parts, *options)])
    shapes = ", ".join(f"{part} [B,T,H{',' * (size != '1')}{size.strip('1')}]" for part, size in sizes.items())
    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature
    function.__doc__ = f"""The output [B,T,H,V] and the final state [N,H,K,V], or None: {"; ".join(_RULES[rule][1:])}

    {shapes}.  H is that of v; other parts may have fewer heads, which divide it.  Gates are logarithms of
    decays, at most 0.  scale: of the queries; None: K**-0.5.  cu_seqlens: [N+1], of int32 or int64; then
    B is 1, and sequence n has the steps cu_seqlens[n] to cu_seqlens[n+1] - 1; else N is B.
    use_qk_l2norm_in_kernel: queries and keys are divided by their norms.
    """
    return function


chunk_delta_rule = _function("chunk_delta_rule", **_NORM)
chunk_gated_delta_rule = _function("chunk_gated_delta_rule", **_NORM)
chunk_gla = _function("chunk_gla")
chunk_kda = _function("chunk_kda", **_NORM)
chunk_rwkv7 = _function("chunk_rwkv7", ("b_", "b"), scale=1.0)
chunk_simple_gla = _function("chunk_simple_gla")
fused_recurrent_delta_rule = _function("fused_recurrent_delta_rule", **_NORM)
fused_recurrent_gated_delta_rule = _function("fused_recurrent_gated_delta_rule", **_NORM)
fused_recurrent_gla = _function("fused_recurrent_gla", ("g", "gk"))
fused_recurrent_kda = _function("fused_recurrent_kda", **_NORM)
fused_recurrent_rwkv7 = _function("fused_recurrent_rwkv7", ("b_", "b"), output_final_state=True)
fused_recurrent_simple_gla = _function("fused_recurrent_simple_gla")


# ---- models of transformers --------------------------------------------------------------------

# Functions in the modules of its models, which they call for want of a kernel.
_SERVED = {"torch_chunk_gated_delta_rule": chunk_gated_delta_rule,
           "torch_recurrent_gated_delta_rule": fused_recurrent_gated_delta_rule,
           "chunk_kimi_delta_attention": chunk_kda,
           "recurrent_kimi_delta_attention": fused_recurrent_kda}
_NAMES = {"query": "q", "key": "k", "value": "v"}


def _serving(function, original):
    """The function for tensors on a CPU, the original for others."""
    known = inspect.signature(original).parameters
    names, usual = list(known), {name: one.default for name, one in known.items() if name != "chunk_size"}
    taken = set(inspect.signature(function).parameters)

    @functools.wraps(original)
    def serving(*arguments, **named):
        given = {**dict(zip(names, arguments)), **named}
        if not given["query"].is_cpu:
            return original(*arguments, **named)
        given = {_NAMES.get(name, name): one for name, one in given.items()}
        if any(name not in taken and one is not usual.get(name, one) for name, one in given.items()):
            return original(*arguments, **named)
        return function(**{name: one for name, one in given.items() if name in taken})

    return serving


def patch(*modules) -> contextlib.ExitStack:
    """Lets models of transformers call these functions for tensors on a CPU, instead of code in torch
    that is there for want of a kernel: Qwen3-Next, Qwen3.5, OLMo hybrid, Kimi Linear.

    modules: those of the models, such as transformers.models.qwen3_next.modeling_qwen3_next; none:
    all that are imported.  ``close()`` of what it returns, or the end of a ``with``, undoes it.  Raises
    ValueError if there is nothing to replace.  Models of transformers 4 keep what they were made with.
    """
    modules = modules or tuple(module for name, module in list(sys.modules.items())
                               if name.startswith("transformers") and ".modeling_" in name)
    found = [(module, name) for module in modules for name in _SERVED if name in vars(module)]
    if not found:
        raise ValueError("none of the modules has a function to replace: import that of the model")
    undo = contextlib.ExitStack()
    for module, name in found:
        original = vars(module)[name]
        setattr(module, name, _serving(_SERVED[name], original))
        undo.callback(setattr, module, name, original)
    return undo


__all__ = [*(name for name in dir() if name.startswith(("chunk_", "fused_recurrent_"))), "patch"]
