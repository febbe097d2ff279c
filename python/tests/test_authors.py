"""The cells of the library against the packages of their authors: outputs and gradients in F64.

A step of the other package reads leaves that are ours, by name, so gradients reach the same tensors.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import ecornn  # noqa: E402
import ecornn.torch as et  # noqa: E402

T, N, I, H = 12, 3, 4, 5
NAMES = {"W": "weight_ih_l0", "R": "weight_hh_l0", "b": "bias_l0", "p": "factor_l0"}


def leaves_of(layer):
    """The parameters of a layer by kind and line, as leaves."""
    count, leaves = dict.fromkeys("WRbp", 0), {}
    for kind, line in ecornn.Cell(layer.cell_text).parameters:
        rows = slice(count[kind] * H, (count[kind] + 1) * H)
        count[kind] += 1
        value = getattr(layer, NAMES[kind]).detach()[rows].clone()
        leaves[f"{kind}.{line}"] = value.requires_grad_()
    return leaves


def put(layer, leaves):
    """Sets the layer's parameters to those of the leaves."""
    with torch.no_grad():
        for kind, name in NAMES.items():
            own = [value for key, value in leaves.items() if key[0] == kind]
            if own:
                getattr(layer, name).copy_(torch.cat(own))


def gradients(layer, leaves):
    """The gradients of a layer's parameters in the order of the leaves."""
    parts = {kind: iter(getattr(layer, name).grad.split(H)) for kind, name in NAMES.items()
             if any(key[0] == kind for key in leaves)}
    return [next(parts[key[0]]) for key in leaves]


def compare(name, step, inputs=I, bound=1e-9, first=None, change=None, size=1.0, fixed=()):
    """step(p, x, states): the next states, the output first, of leaves p.  first: the states at which
    it begins, as tensors [N,H]; change: sets leaves before; size: of x; fixed: leaves that the other
    package does not learn."""
    torch.manual_seed(len(name))
    layer = et.Recurrent(inputs, H, cell=name, dtype=torch.float64)
    leaves = leaves_of(layer)
    if change:
        with torch.no_grad():
            change(leaves)
        put(layer, leaves)
    x = (size * torch.randn(T, N, inputs, dtype=torch.float64)).requires_grad_()
    dy = torch.randint(-8, 9, (T, N, H)).double() / 8  # exact in F32, which some packages have inside
    y, _ = layer(x)
    dx, = torch.autograd.grad((y * dy).sum(), x, retain_graph=True)
    (y * dy).sum().backward()
    count = ecornn.Cell(name).states
    states, outputs = first or [torch.zeros(N, H, dtype=torch.float64)] * count, []
    for t in range(T):
        states = step(leaves, x[t], states)
        outputs.append(states[0])
    theirs = torch.stack(outputs).double()
    if set(theirs.unique().tolist()) <= {0.0, 1.0}:
        assert 0.02 < theirs.mean() < 0.98, "too few spikes, or too many"
    torch.testing.assert_close(y, theirs, rtol=bound, atol=bound)
    # None: a parameter that is not reached
    found = torch.autograd.grad((theirs * dy).sum(), [x, *leaves.values()], allow_unused=True)
    for key, mine, other in zip(["x", *leaves], [dx, *gradients(layer, leaves)], found):
        if key in fixed:
            continue
        other = torch.zeros_like(mine) if other is None else other
        torch.testing.assert_close(mine, other, rtol=bound, atol=bound,
                                   msg=lambda text, key=key: f"gradient of {key}: {text}")


def call(module, values, *arguments):
    """A module with these tensors as its parameters, of any shape."""
    return torch.func.functional_call(module, values, arguments, strict=False)


def cat(p, kind, lines):
    """Leaves of one kind, joined; 0: zeros."""
    return torch.cat([torch.zeros(H, dtype=torch.float64) if line == "0" else p[f"{kind}.{line}"]
                      for line in lines.split()])


# ---- torchrecurrent ------------------------------------------------------------------------------

# cell: class, lines of weight_ih, weight_hh, bias_ih and bias_hh in its order, other parameters,
# arguments.  Without lines a bias is 0.
RECURRENT = {
    "atr": ("ATRCell", "u", "q", "", "", {}, {}),
    "brc": ("BRCell", "a c h", "", "a c h", "", {"weight_hh": "p a c"}, {}),
    "nbrc": ("NBRCell", "a c h", "a c", "a c h", "", {}, {}),
    "cfn": ("CFNCell", "t i g", "t i", "t i 0", "", {}, {}),
    "cornn": ("coRNNCell", "z", "z", "z", "", {"weight_ch": "R q"},
              {"dt": 0.05, "gamma": 1.5, "epsilon": 2.0}),
    "fastrnn": ("FastRNNCell", "g", "g", "g", "", {"alpha": "p k", "beta": "p n"}, {}),
    "fastgrnn": ("FastGRNNCell", "a", "a", "z g", "", {"zeta": "p k", "nu": "p n"},
                 {"nonlinearity": "sigmoid"}),
    "indrnn": ("IndRNNCell", "h", "", "h", "", {"vector_u": "p h"}, {"nonlinearity": "relu"}),
    "janet": ("JANETCell", "s g", "s g", "s g", "", {}, {}),
    "li-gru-plain": ("LiGRUCell", "z n", "z n", "z n", "", {}, {}),
    "lstm-1997": ("OriginalLSTMCell", "i g o", "i g o", "i g o", "", {}, {}),
    "minimal-rnn": ("MinimalRNNCell", "z", "u", "z", "u", {"weight_mm": "R q"}, {}),
    "mut1": ("MUT1Cell", "z r q", "r n", "z r 0", "0 n", {}, {}),
    "mut2": ("MUT2Cell", "z r n", "z r n", "z r n", "", {}, {}),
    "mut3": ("MUT3Cell", "z r n", "z r n", "z r n", "", {}, {}),
    "ran": ("RANCell", "g i f", "i f", "i f", "", {}, {}),
    "residual-lstm": ("ResLSTMCell", "i f g o", "i f g o", "i f g o", "",
                      {"weight_ph": "p i f o", "weight_proj": "R h", "weight_res": "W h"}, {}),
    "star": ("STARCell", "z k", "k", "z k", "", {}, {}),
    "t-rnn": ("TRNNCell", "z f", "", "0 f", "", {}, {}),
    "unicornn": ("UnICORNNCell", "z", "", "z", "", {"weight_hh": "p z", "weight_ch": "p d"},
                 {"dt": 0.1, "alpha": 1.0}),
    "wmc-lstm": ("WMCLSTMCell", "i f g o", "i f g o", "i f g o", "",
                 {"weight_mh": "R mi mf mo", "bias_mh": "b mi mf mo"}, {}),
}
TYPED = {"t-gru": "TGRUCell", "t-lstm": "TLSTMCell"}  # their input before is a state of I


def recurrent_values(module, p, ih, hh, bias_ih, bias_hh, others):
    """A module's parameters, from leaves."""
    values = {name: torch.zeros_like(value) for name, value in module.named_parameters()
              if name.startswith("bias")}
    given = {"weight_ih": f"W {ih}", "weight_hh": f"R {hh}", "bias_ih": f"b {bias_ih}",
             "bias_hh": f"b {bias_hh}", **others}
    for name, words in given.items():
        kind, lines = words.split(" ", 1)
        if lines:
            values[name] = cat(p, kind, lines)
    return values


@pytest.mark.parametrize("name", RECURRENT)
def test_torchrecurrent(name):
    package = pytest.importorskip("torchrecurrent")
    kind, ih, hh, bias_ih, bias_hh, others, arguments = RECURRENT[name]
    module = getattr(package, kind)(I, H, dtype=torch.float64, **arguments)

    def step(p, x, states):
        values = recurrent_values(module, p, ih, hh, bias_ih, bias_hh, others)
        given = states[0] if len(states) == 1 and kind != "JANETCell" else tuple(states[:2])
        if kind == "JANETCell":
            given = (states[0], states[0])
        found = call(module, values, x, given)
        return list(found)[:len(states)] if isinstance(found, tuple) else [found]

    compare(name, step)


@pytest.mark.parametrize("name", TYPED)
def test_torchrecurrent_with_the_input_before(name):
    package = pytest.importorskip("torchrecurrent")
    module = getattr(package, TYPED[name])(H, H, dtype=torch.float64)

    def step(p, x, states):
        values = recurrent_values(module, p, "z f o", "z f o", "z f o", "", {})
        values["weight_hh"] = cat(p, "R", "z f o")
        if name == "t-gru":
            return call(module, values, x, tuple(states))
        h, kept = call(module, values, x, tuple(states[1:]))
        return [h, *kept]

    compare(name, step, inputs=H)


def test_torchrecurrent_of_two_outputs():
    package = pytest.importorskip("torchrecurrent")
    module = package.IntersectionRNNCell(H, H, dtype=torch.float64)

    def step(p, x, states):
        values = recurrent_values(module, p, "d n k g", "d n k g", "d n k g", "", {})
        return call(module, values, x, states[1])

    compare("intersection-rnn", step, inputs=H)


def test_torchrecurrent_with_a_bias_of_one():
    package = pytest.importorskip("torchrecurrent")
    module = package.UGRNNCell(I, H, dtype=torch.float64)

    def step(p, x, states):
        values = recurrent_values(module, p, "c g", "c g", "c g", "", {})
        values["bias_hh"] = torch.cat([torch.zeros(H), torch.ones(H)]).double()
        return [call(module, values, x, states[0])]

    compare("ugrnn", step)


def test_ncps():
    package = pytest.importorskip("ncps.torch")
    module = package.CfCCell(I, H, backbone_units=H).double()

    def step(p, x, states):
        # its two times of one length are one product
        values = {"backbone.0.weight": torch.cat([p["W.s"], p["R.s"]], 1), "backbone.0.bias": p["b.s"],
                  "ff1.weight": p["R.f"], "ff1.bias": p["b.f"], "ff2.weight": p["R.g"],
                  "ff2.bias": p["b.g"], "time_a.weight": p["R.k"], "time_a.bias": p["b.k"],
                  "time_b.weight": torch.zeros(H, H).double(), "time_b.bias": torch.zeros(H).double()}
        return [call(module, values, x, states[0], 1.0)[0]]

    compare("cfc", step)


# ---- spikes --------------------------------------------------------------------------------------

def current(p, x, s, line):
    """W x + R s + b of what there is."""
    total = x @ p[f"W.{line}"].T
    total = total + s.double() @ p[f"R.{line}"].T if f"R.{line}" in p else total
    return total + p[f"b.{line}"] if f"b.{line}" in p else total


def strong(p):
    """Weights that make units fire."""
    for key, value in p.items():
        value.mul_(3 if key[0] in "WR" else 1)
        if key[0] == "p":
            value.copy_(torch.rand(H, dtype=torch.float64))


def test_snntorch_leaky():
    snn = pytest.importorskip("snntorch")

    def step(p, x, states):
        neuron = snn.Leaky(beta=0.9, learn_beta=True, spike_grad=snn.surrogate.fast_sigmoid(25))
        return call(neuron, {"beta": p["p.u"]}, current(p, x, None, "u"), states[1])

    compare("leaky", step, change=strong)


def test_snntorch_with_recurrent_weights():
    snn = pytest.importorskip("snntorch")

    def step(p, x, states):
        neuron = snn.RLeaky(beta=0.9, learn_beta=True, linear_features=H,
                            spike_grad=snn.surrogate.fast_sigmoid(25)).double()
        values = {"beta": torch.sigmoid(p["p.u"]), "recurrent.weight": p["R.u"],
                  "recurrent.bias": p["b.u"]}
        return call(neuron, values, x @ p["W.u"].T, states[0].double(), states[1])

    compare("lif", step, bound=1e-6, change=strong)


def test_snntorch_synaptic():
    snn = pytest.importorskip("snntorch")

    def step(p, x, states):
        neuron = snn.Synaptic(alpha=0.9, beta=0.8, learn_alpha=True, learn_beta=True,
                              spike_grad=snn.surrogate.fast_sigmoid(25))
        return call(neuron, {"alpha": p["p.i"], "beta": p["p.u"]}, current(p, x, None, "i"),
                    states[1], states[2])

    compare("synaptic", step, change=strong)


def test_snntorch_slstm():
    snn = pytest.importorskip("snntorch")

    def step(p, x, states):
        neuron = snn.SLSTM(H, H, threshold=0.5, reset_mechanism="none",
                           spike_grad=snn.surrogate.fast_sigmoid(25)).double()
        values = {"lstm_cell.weight_ih": cat(p, "W", "i f g o"),
                  "lstm_cell.weight_hh": cat(p, "R", "i f g o"),
                  "lstm_cell.bias_ih": cat(p, "b", "i f g o"),
                  "lstm_cell.bias_hh": torch.zeros(4 * H).double()}
        s, c, u = call(neuron, values, x, states[2], states[1])
        return s, u, c

    # it takes I = H only: else its states have another shape than its input, and are cleared
    compare("spiking-lstm", step, inputs=H, change=strong, size=3)


def norse(name):
    """A module of norse's functions; the parameters of a neuron in doubles."""
    return pytest.importorskip(f"norse.torch.functional.{name}")


def doubles(parameters, **values):
    given = {key: value.double() if torch.is_tensor(value) else value
             for key, value in parameters._asdict().items()}
    given.update((key, torch.tensor(value, dtype=torch.float64)) for key, value in values.items())
    return type(parameters)(**given)


def test_norse_iaf():
    of = norse("iaf")

    def step(p, x, states):
        z, state = of.iaf_step(x, of.IAFState(*states), p["W.m"], p["R.m"], doubles(of.IAFParameters()))
        return z, state.v

    compare("iaf", step, change=strong)


@pytest.mark.parametrize("name, module, line", [("lif-norse", "lif", "j"), ("adex", "lif_adex", "j"),
                                                ("lsnn", "lsnn", "i")])
def test_norse_with_a_current(name, module, line):
    of = norse(module)
    part = {"lif": "LIF", "lif_adex": "LIFAdEx", "lsnn": "LSNN"}[module]
    state_of, own = getattr(of, part + "State"), getattr(of, part + "Parameters")
    more = {"lif": {}, "lsnn": {"tau_adapt_inv": 1.0, "beta": 1.8},
            "lif_adex": {"adaptation_spike": 0.02}}[module]

    def step(p, x, states):
        z, state = getattr(of, module + "_step")(
            x, state_of(*states), p["W." + line], p["R." + line], doubles(own(), **more))
        return [z, state.v, state.i, *state[3:]]

    first = [torch.zeros(N, H, dtype=torch.float64) for _ in range(ecornn.Cell(name).states)]
    if name == "lsnn":
        first[3] += 1
    compare(name, step, first=first, change=strong, size=8)


def test_norse_integrator():
    of = norse("leaky_integrator")

    def step(p, x, states):
        return of.li_step(x, of.LIState(*states), p["W.j"], doubles(of.LIParameters()))[1]

    compare("li", step)


def test_norse_izhikevich():
    of = norse("izhikevich")
    parameters = of.IzhikevichParameters(a=0.02, b=0.2, c=-65.0, d=8.0, v_th=torch.tensor(30.0).double())

    def step(p, x, states):
        z, state = of.izhikevich_recurrent_step(x, of.IzhikevichRecurrentState(*states), p["W.m"],
                                                p["R.m"], parameters)
        return z, state.v, state.u

    full = [torch.full((N, H), k, dtype=torch.float64) for k in (0, -65, -13)]
    compare("izhikevich", step, first=full, change=strong, size=100)


# cell: class, line of its current, line of the state before the spike, arguments, and parameters
JELLY = {
    "qif": ("QIFNode", "m", {"tau": 2.0}, ""),
    "eif": ("EIFNode", "m", {"tau": 2.0}, ""),
    "klif": ("KLIFNode", "m", {}, "k p.m"),
    "plif": ("ParametricLIFNode", "a", {}, "w p.m"),
}


@pytest.mark.parametrize("name", JELLY)
def test_spikingjelly(name):
    neurons = pytest.importorskip("spikingjelly.activation_based.neuron")
    from spikingjelly.activation_based import surrogate

    kind, line, arguments, leaf = JELLY[name]
    states_of = {}

    def step(p, x, states):
        if not states_of:
            states_of["node"] = getattr(neurons, kind)(
                surrogate_function=surrogate.ATan(), detach_reset=True, **arguments).double()
        node = states_of["node"]
        node.v = states[1]
        values = {leaf.split()[0]: p[leaf.split()[1]]} if leaf else {}
        return call(node, values, current(p, x, states[0], line)), node.v

    compare(name, step, change=strong, size=3)


def test_spikingjelly_with_a_current():
    neurons = pytest.importorskip("spikingjelly.activation_based.functional")
    from spikingjelly.activation_based import surrogate

    def step(p, x, states):
        s, i, u = neurons.cuba_lif_step(current(p, x, states[0], "i"), states[2], states[1],
                                        torch.sigmoid(p["p.i"]), torch.sigmoid(p["p.k"]), 0.5, 0.0,
                                        surrogate.ATan(), True)
        return s, u, i

    compare("cuba-lif", step, change=strong)


def test_spikingjelly_that_resonates():
    neurons = pytest.importorskip("spikingjelly.activation_based.functional")
    import math

    from spikingjelly.activation_based import surrogate

    decay, omega = -0.2, 1.0

    def angle(p):
        strong(p)
        p["p.a"].fill_(math.exp(decay) * math.cos(omega))
        p["p.c"].fill_(math.exp(decay) * math.sin(omega))

    def step(p, x, states):
        s, g, u = neurons.raf_step(current(p, x, states[0], "g"), states[1], states[2], decay, omega,
                                   1.0, 1.0, 0.0, surrogate.ATan(), True)
        return s, g, u

    compare("raf", step, change=angle, fixed=("p.a", "p.c"))


def test_spikingjelly_with_a_complementary_potential():
    neurons = pytest.importorskip("spikingjelly.activation_based.functional")
    from spikingjelly.activation_based import surrogate

    def step(p, x, states):
        return neurons.clif_step(current(p, x, states[0], "m"), states[1], states[2], 2.0, 1.0,
                                 surrogate.Rect(alpha=1.0))

    compare("clif", step, change=strong)
