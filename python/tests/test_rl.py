"""ecornn.rl with the packages it is for, unchanged: the same values, gradients and trained parameters.

A test skips without its package; bench/python/rl.py has times.
"""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
import ecornn.rl  # noqa: E402
import ecornn.torch as et  # noqa: E402


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_nothing_to_accelerate():
    with pytest.raises(ValueError, match="no recurrent policy"):
        ecornn.rl.accelerate(torch.nn.LSTM(2, 3))
    with pytest.raises(AttributeError):
        ecornn.rl.Nothing


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_single_steps(kind, batch_first):
    theirs = getattr(torch.nn, kind)(5, 7, batch_first=batch_first)
    ours = getattr(ecornn.rl, kind)(5, 7, batch_first=batch_first)
    ours.load_state_dict(theirs.state_dict())
    state = torch.randn(1, 3, 7, requires_grad=True)
    for steps in (1, 2):
        x = torch.randn(3, steps, 5) if batch_first else torch.randn(steps, 3, 5)
        for given in (False, True):
            found = []
            for layer in (theirs, ours):
                hx = None if not given else (state, 2 * state) if kind == "LSTM" else state
                y, final = layer(x, hx)
                asked = [*layer.parameters()] + [state] * given
                found.append([y, *final, *torch.autograd.grad(y.pow(2).sum(), asked)])
            for a, b in zip(*found):
                close(a, b)
    y, final = ours(x[:, :1] if batch_first else x[:1])
    y.data.zero_()
    assert (final[0] if kind == "LSTM" else final).abs().max() > 0


# ---- sb3-contrib ------------------------------------------------------------------------------


def ppo(steps, envs, **more):
    contrib = pytest.importorskip("sb3_contrib")
    from stable_baselines3.common.env_util import make_vec_env

    made = contrib.RecurrentPPO("MlpLstmPolicy", make_vec_env("CartPole-v1", envs, seed=3),
                                n_steps=steps, batch_size=steps, n_epochs=2, seed=3, device="cpu",
                                policy_kwargs={"lstm_hidden_size": 32, **more})
    return made


@pytest.mark.parametrize("more", [{}, {"n_lstm_layers": 2},
                                  {"shared_lstm": True, "enable_critic_lstm": False}])
def test_recurrent_ppo_trains_as_unchanged(more):
    theirs = ppo(48, 3, **more).learn(288)
    ours = ppo(48, 3, **more)  # seeds torch, too
    assert ecornn.rl.accelerate(ours) is ours
    ours.learn(288)
    names = list(ours.policy.state_dict())
    assert names == list(theirs.policy.state_dict())
    for a, b in zip(theirs.policy.parameters(), ours.policy.parameters()):
        close(a, b)


def test_recurrent_ppo_resets_in_the_middle():
    agent = ppo(16, 1)
    policy = agent.policy
    theirs = copy.deepcopy(policy)
    ecornn.rl.accelerate(policy)
    for mine in (policy, copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        for rows, steps in ((3, 6), (4, 1), (1, 1)):
            torch.manual_seed(rows)
            x = torch.randn(rows * steps, 4)
            starts = (torch.rand(rows * steps) < 0.4).float()
            states = torch.randn(1, rows, 32), torch.randn(1, rows, 32)
            found = []
            for one in (theirs, mine):
                y, final = one._process_sequence(x, states, starts, one.lstm_actor)
                found.append([y, *final, *torch.autograd.grad(
                    y.pow(2).sum() + final[1].sum(), [*one.lstm_actor.parameters()])])
            for a, b in zip(*found):
                close(a, b)


def test_recurrent_ppo_saves(tmp_path):
    agent = ecornn.rl.accelerate(ppo(16, 1))
    agent.learn(16)
    agent.save(tmp_path / "agent")
    again = type(agent).load(tmp_path / "agent")
    for a, b in zip(agent.policy.parameters(), again.policy.parameters()):
        assert torch.equal(a, b)
    first = agent.predict([[0.1, 0.0, 0.1, 0.0]], deterministic=True)[0]
    assert first == ecornn.rl.accelerate(again).predict([[0.1, 0.0, 0.1, 0.0]],
                                                        deterministic=True)[0]


# ---- TorchRL ----------------------------------------------------------------------------------


def rl_module(kind, layers=1, **more):
    modules = pytest.importorskip("torchrl.modules")
    torch.manual_seed(0)
    return getattr(modules, f"{kind}Module")(
        input_size=4, hidden_size=6, num_layers=layers, in_key="x", out_key="y",
        default_recurrent_mode=True, **more)


def rl_data(kind, layers, rows, steps, inits, stored):
    tensordict = pytest.importorskip("tensordict").TensorDict
    torch.manual_seed(1)
    data = {"x": torch.randn(rows, steps, 4), "is_init": inits[..., None]}
    for name in ("recurrent_state_h", "recurrent_state_c") if kind == "LSTM" else (
            "recurrent_state",):
        state = torch.randn(rows, steps, layers, 6)
        state[inits] = stored
        data[name] = state
    return tensordict(data, [rows, steps])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("stored", [0.0, 0.5])  # states stored where a trajectory begins
def test_torchrl_modules(kind, layers, stored):
    theirs = rl_module(kind, layers)
    ours = ecornn.rl.accelerate(copy.deepcopy(theirs))
    assert isinstance(ours, type(theirs)) and list(ours.state_dict()) == list(theirs.state_dict())
    inits = torch.rand(5, 9, generator=torch.Generator().manual_seed(2)) < 0.3
    inits[0] = False
    out = theirs.out_keys
    for mine in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        found = []
        for module in (theirs, mine):
            result = module(rl_data(kind, layers, 5, 9, inits, stored))
            loss = sum((result[key] * torch.linspace(-1, 1, result[key].numel()).view_as(
                result[key])).sum() for key in out)
            found.append([*(result[key] for key in out),
                          *torch.autograd.grad(loss, [*module.parameters()])])
        for a, b in zip(*found):
            close(a, b)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_torchrl_steps_and_what_stays(kind):
    from contextlib import nullcontext

    theirs = rl_module(kind)
    ours = ecornn.rl.accelerate(copy.deepcopy(theirs))
    mode = pytest.importorskip("torchrl.modules").set_recurrent_mode
    inits = torch.tensor([[True], [False], [False]])
    with mode(False), torch.no_grad() if kind == "GRU" else nullcontext():
        for key in theirs.out_keys:
            close(*(module(rl_data(kind, 1, 3, 1, inits, 0.0))[key] for module in (theirs, ours)))
    with pytest.raises(ValueError, match="no recurrent policy"):  # written in Python, with a mask
        ecornn.rl.accelerate(rl_module(kind, python_based=True))


# ---- rsl_rl -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_rsl_rl_memory(kind):
    package = pytest.importorskip("rsl_rl.modules.rnn")
    utils = pytest.importorskip("rsl_rl.utils")
    torch.manual_seed(0)
    theirs = package.RNN(4, 8, 2, kind)
    ours = ecornn.rl.accelerate(copy.deepcopy(theirs))
    assert isinstance(ours.rnn, (et.LSTM, et.GRU)) and isinstance(ours, package.RNN)
    x, dones = torch.randn(7, 3, 4), torch.rand(7, 3, 1) < 0.3
    padded, masks = utils.split_and_pad_trajectories(x, dones)
    state = torch.randn(2, padded.shape[1], 8)
    hidden = (state, state.cos()) if kind == "lstm" else state
    for mine in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        found = []
        for module in (theirs, mine):
            y = module(padded, masks, hidden)
            found.append([y, *torch.autograd.grad(y.pow(2).sum(), [*module.parameters()])])
        for a, b in zip(*found):
            close(a, b)
    for module in (theirs, ours):  # acting
        with torch.inference_mode():
            module.reset()
            module(x[0])
            module.reset(torch.tensor([1, 0, 1]))
            found.append(module(x[1]))
    close(found[-2], found[-1])
