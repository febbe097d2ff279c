"""torch's own database of modules, which its test_modules.py is made of, with ecornn's in it.

Each input of the database goes through what torch checks of every module: values, both gradients,
copies, devices and strides.
"""

from __future__ import annotations

import copy
import io
import os
import warnings

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
pytest.importorskip("expecttest")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_modules import module_db

OURS = {getattr(torch.nn, name + cell): getattr(et, name + cell)
        for name in ("LSTM", "GRU", "RNN") for cell in ("", "Cell")}
INFOS = [info for info in module_db if info.module_cls in OURS]


def _inputs(info, device, dtype, training):
    for given in info.module_inputs_func(info, device=device, dtype=dtype, requires_grad=True,
                                         training=training):
        if given.forward_input is not None:
            yield given


def _pair(info, given, device, dtype, training):
    args, kwargs = given.constructor_input.args, given.constructor_input.kwargs
    made = []
    for kind in (info.module_cls, OURS[info.module_cls]):
        torch.manual_seed(0)
        made.append(kind(*args, **kwargs).to(device, dtype).train(training))
    return made


def _tensors(result):
    if isinstance(result, torch.Tensor):  # of a cell
        return [result]
    y, state = result
    y = y.data if isinstance(y, torch.nn.utils.rnn.PackedSequence) else y
    return [y, *(state if isinstance(state, tuple) else (state,))]


def over_all(test):
    test = pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)(test)
    return pytest.mark.parametrize("training", [True, False])(test)


def test_database_has_them():
    assert len(INFOS) == len(OURS)


@over_all
def test_forward_and_copies(info, device, training):
    for given in _inputs(info, device, torch.float32, training):
        theirs, ours = _pair(info, given, device, torch.float32, training)
        args, kwargs = given.forward_input.args, given.forward_input.kwargs
        want, have = _tensors(theirs(*args, **kwargs)), _tensors(ours(*args, **kwargs))
        for a, b in zip(want, have):
            torch.testing.assert_close(a, b, atol=2e-3 if device == "cuda" else 1e-5, rtol=1e-3)
        assert repr(ours) == "ecornn.torch." + repr(theirs)
        file = io.BytesIO()
        torch.save(ours, file)
        file.seek(0)
        for other in (copy.deepcopy(ours), torch.load(file, weights_only=False)):
            for a, b in zip(have, _tensors(other(*args, **kwargs))):
                assert torch.equal(a, b)


@pytest.mark.every(5)
@over_all
@pytest.mark.parametrize("twice", [False, True])
def test_gradients(info, device, training, twice):
    check = torch.autograd.gradgradcheck if twice else torch.autograd.gradcheck
    step = 1 if os.environ.get("ECORNN_TESTS") == "all" else 3
    for given in list(_inputs(info, device, torch.double, training))[::step]:
        _, ours = _pair(info, given, device, torch.double, training)
        args, kwargs = given.forward_input.args, given.forward_input.kwargs
        leaves, rebuild = torch.utils._pytree.tree_flatten((args, kwargs))
        asked = [k for k, leaf in enumerate(leaves)
                 if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        parameters = list(ours.parameters())

        def run(*tensors):
            filled = list(leaves)
            for k, tensor in zip(asked, tensors):
                filled[k] = tensor
            args, kwargs = torch.utils._pytree.tree_unflatten(filled, rebuild)
            return tuple(_tensors(ours(*args, **kwargs)))

        # Along random directions: every element of every parameter takes minutes.
        assert check(run, [leaves[k] for k in asked] + parameters, nondet_tol=0.0,
                     fast_mode=True)


@over_all
def test_strides(info, device, training):
    for given in _inputs(info, device, torch.float32, training):
        _, ours = _pair(info, given, device, torch.float32, training)
        args, kwargs = given.forward_input.args, given.forward_input.kwargs

        def strided(leaf):
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                return leaf
            wide = torch.stack([leaf.detach(), leaf.detach()], -1)
            return wide[..., 0].requires_grad_(leaf.requires_grad)

        loose = torch.utils._pytree.tree_map(strided, (args, kwargs))
        for a, b in zip(_tensors(ours(*args, **kwargs)), _tensors(ours(*loose[0], **loose[1]))):
            assert torch.equal(a, b)
