"""Operators called by hand, one argument wrong: an error that says so, or the right result."""

import math

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from ecornn._errors import Error  # noqa: E402
from ecornn.torch import _native  # noqa: E402
from test_torch_native import odd  # noqa: E402

OTHERS = {int: (-1, 0, 3, 2**31 - 1, 2**31, 2**32, 2**40 + 1, 2**63 - 1, -2**63), bool: (),
          float: (math.nan, math.inf, -1.0, 1e300), type(None): (),
          str: ("", "\0", "lstm\0", "x" * 10**5, "é;", "-1", "cell a(h)\vh' = W x +", "0,0")}


def calls():
    """A right call of each operator."""
    torch.manual_seed(0)
    ops, seed = torch.ops.ecornn, torch.tensor([1])
    x, h, ones = torch.randn(5, 2, 4), torch.randn(1, 2, 8), torch.ones(5, 2, 8)
    lengths, marks = torch.tensor([5, 3], dtype=torch.int32), torch.ones(5, 2, dtype=torch.uint8)
    weights, params = ([w.detach() for w in module.parameters()]
                       for module in (et.LSTM(4, 8), et.Net(4, "gru/H8")))
    layer = [x, lengths, [h, h], weights, marks, [h, h], marks, "lstm", "L1/I4/H8",
             "save:all", 0.0, False, seed]
    net = [x, lengths, marks, marks, params, [h], "0", 4, "gru/H8", False, "", "", "auto", 0, False, seed]
    attend = [h.expand(3, 2, 8), ones, x, torch.randn(8), lengths, False]
    y, _, _, *kept = ops.layer(*layer, True)
    made, _, *blocks = ops.net(*net, True)
    context, scores, reserve = ops.attention(*attend, True, True)
    step = [x[0], h[0], h[0], *weights]
    cells = {"cell": [0, 1, step], "cell_backward": [0, 117, [*step, h[0], ones[0].repeat(1, 4), h[0]]]}
    return {**(cells if _native._module else {}), "draw": [x], "layer": [*layer, False], "net": [*net, True],
            "attention": [*attend, True, True],
            "attention_backward": [context, scores, reserve, *attend, [True] * 4],
            "layer_backward": [[ones, h, None], y, *kept, *layer, [True] * 9],
            "net_backward": [[ones, h], made, *blocks, *net, [True] * 12]}


def wrong(tensor):
    return [tensor.to("meta"), tensor.double(), tensor.bool(), tensor.to(torch.complex64), tensor[None],
            tensor.reshape(-1), tensor[:0], tensor.sum(), tensor.to_sparse()]


@pytest.mark.parametrize("name", list(calls()))
def test_one_argument_changed(name):
    space = torch.ops.ecornn_native if name.startswith("cell") else torch.ops.ecornn
    operator, right = getattr(space, name), calls()[name]
    want = operator(*right)

    def attempt(k, other):
        try:
            return operator(*right[:k], other, *right[k + 1:])
        except (Error, RuntimeError, ValueError) as error:  # IndexError and others are not ours
            assert isinstance(error, Error) or type(error) in (RuntimeError, ValueError, NotImplementedError)

    def unchanged(found):
        return name == "draw" or not found or all(map(torch.equal, found, want))

    for k, given in enumerate(right):
        for i, one in enumerate(given) if isinstance(given, list) else ((None, given),):
            def put(other):
                return other if i is None else [*given[:i], other, *given[i + 1:]]

            if not torch.is_tensor(one):
                [attempt(k, put(other)) for other in (*OTHERS[type(one)], None)]
                continue
            for other in wrong(one):  # floats and blocks of bytes: refused, or not used
                used = one.numel() and (one.dtype is not torch.float32 or not other.numel())
                assert unchanged(attempt(k, put(other))) or used, (k, i)
            for other in (odd(one), torch.stack([one, one], -1)[..., 0]) if one.numel() else ():
                found = attempt(k, put(other))
                assert found is not None and unchanged(found), (k, i)
            attempt(k, put(-one))
        for other in ([], given[:-1], given * 2, given[::-1], given * 3000) if isinstance(given, list) else ():
            attempt(k, other)
