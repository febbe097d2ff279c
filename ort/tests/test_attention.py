"""LinearAttention nodes equal those of ONNX Runtime's own provider."""

import numpy as np
import pytest
from models import attention_model, close, draw_attention, feeds, own, theirs

try:
    theirs(attention_model(draw_attention(np.random.default_rng(0), 1, 1, 1, 8), 1, "linear"))
except Exception as lacks:
    pytest.skip(f"this ONNX Runtime has no LinearAttention: {lacks}", allow_module_level=True)

RULES = ["linear", "gated", "delta", "gated_delta"]
DOMAINS = ["com.microsoft", ""]


def both(arrays, heads, rule, **said):
    model = attention_model(arrays, heads, rule, **said)
    ours, other = own(model), theirs(model)
    close(ours.run(None, feeds(ours, arrays)), other.run(None, feeds(other, arrays)), 5e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("domain", DOMAINS, ids=["microsoft", "onnx"])
@pytest.mark.parametrize("wide", [False, True], ids=["head", "row"])
def test_rules(rule, domain, wide):
    """Each rule, with a decay for a head and for each row, with and without an earlier state."""
    rng = np.random.default_rng(1)
    for T, N, heads, K, V in ((1, 1, 2, 16, 16), (9, 2, 3, 8, 24), (70, 1, 2, 32, 16)):
        arrays = draw_attention(rng, T, N, heads, K, V, wide)
        both(arrays, heads, rule, domain=domain)
        both(arrays, heads, rule, domain=domain, scale=0.3)
        del arrays["past_state"]
        both(arrays, heads, rule, domain=domain)


def test_shared():
    """Heads that share a query, one beta for all heads, and no state asked for."""
    rng = np.random.default_rng(2)
    both(draw_attention(rng, 5, 2, 4, 8, queries=2), 4, "gated_delta", queries=2)
    both(draw_attention(rng, 5, 2, 4, 8, single=True), 4, "gated_delta")
    both(draw_attention(rng, 5, 2, 4, 8, queries=1, single=True), 4, "delta", queries=1)


def test_sizes():
    """One session with many T and N, none among them."""
    rng = np.random.default_rng(3)
    arrays = draw_attention(rng, 1, 1, 2, 8)
    model = attention_model(arrays, 2, "gated_delta")
    ours, other = own(model), theirs(model)
    for T, N in ((1, 1), (40, 3), (7, 5), (1, 9), (200, 1)):
        arrays = draw_attention(rng, T, N, 2, 8)
        close(ours.run(None, arrays), other.run(None, arrays), 5e-5)
    arrays = draw_attention(rng, 0, 2, 2, 8)
    y, state = ours.run(None, arrays)
    assert y.shape == (2, 0, 16) and (state == arrays["past_state"]).all()


@pytest.mark.parametrize("said, text", [
    ({"queries": 4}, "4 query heads share 2 heads of keys"), ({"state_window": 2}, "state_window is 2, must be 0"),
], ids=str)
def test_left(capfd, said, text):
    arrays = draw_attention(np.random.default_rng(4), 3, 1, 2, 8, queries=said.get("queries"))
    if "state_window" in said:
        arrays["past_state"] = np.zeros((2, *arrays["past_state"].shape), np.float32)
    model = attention_model(arrays, 2, "gated_delta", **said)
    if "state_window" in said:
        with pytest.raises(Exception, match="does not support state_window"):
            own(model, only=False)
    else:
        close(own(model, only=False).run(None, arrays), theirs(model).run(None, arrays), 1e-7)
    assert f"ecornn leaves LinearAttention 'the node' to others: {text}" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["query", "key", "value", "past_state", "decay", "beta"])
def test_wrong_shapes(name):
    """Sizes that the graph does not say are checked at each run."""
    arrays = draw_attention(np.random.default_rng(5), 3, 2, 2, 8)
    model = attention_model(arrays, 2, "gated_delta")
    session = own(model)
    good = session.run(None, arrays)
    wrong = arrays | {name: arrays[name][:1] if name != "query" else arrays[name][:, :2]}
    with pytest.raises(Exception, match="dimension [01] of"):
        session.run(None, wrong)
    close(session.run(None, arrays), good, 0)
