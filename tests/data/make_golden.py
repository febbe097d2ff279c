#!/usr/bin/python3
"""Writes the golden vectors golden_*.txt beside this script, from torch.nn in double.

Two layers, both directions, ragged lengths as packed sequences; outputs, final states and the
gradients of sum(y dy) + sum(final dfinal).  Parameters are split by gate and named as ecornn names
them; two biases that ecornn has as one are added.  A file: a line `case PROBLEM`, then
for each array a line `array NAME extents` and a line of its elements.
Run with Debian's python3-torch:  /usr/bin/python3 make_golden.py
"""
import os
import torch

T, N, I, H, L = 5, 4, 3, 4, 2
LENGTHS = [3, 5, 1, 4]

# For each kind of parameter, the name of each block of H rows of torch's matrix or bias.
CELLS = {
    "rnn-tanh": (lambda **k: torch.nn.RNN(nonlinearity="tanh", **k), ["h"], ["h"], 1),
    "rnn-relu": (lambda **k: torch.nn.RNN(nonlinearity="relu", **k), ["h"], ["h"], 1),
    "gru": (torch.nn.GRU, ["r", "z", "n"], ["r", "z", "q"], 1),
    "lstm": (torch.nn.LSTM, list("ifgo"), list("ifgo"), 2),
}


def numbers(*extents):
    """Random numbers in [-1, 1) with few digits, to keep the files small."""
    return torch.randint(-512, 512, extents).double() / 512


def write(file, name, tensor):
    tensor = tensor.detach()
    print("array", name, *tensor.shape, file=file)
    print(*(repr(float(v)) for v in tensor.flatten()), file=file)


def write_params(file, net, inputs, recurrents, proj, gradient):
    def get(name):
        parameter = getattr(net, name)
        return parameter.grad if gradient else parameter

    start = "d:" if gradient else ""
    for layer in range(L):
        for d, suffix in enumerate(["", "_reverse"]):
            end = f"_l{layer}{suffix}"
            front = f"{start}{layer}.{'rev' if d else 'fwd'}."
            for k, gate in enumerate(inputs):
                write(file, f"{front}W.{gate}", get("weight_ih" + end)[k * H:(k + 1) * H])
            for k, gate in enumerate(recurrents):
                write(file, f"{front}R.{gate}", get("weight_hh" + end)[k * H:(k + 1) * H])
            b, c = get("bias_ih" + end), get("bias_hh" + end)
            for k, (gate, other) in enumerate(zip(inputs, recurrents)):
                bk, ck = b[k * H:(k + 1) * H], c[k * H:(k + 1) * H]
                if gate != other:  # the n of a GRU: two biases here too
                    write(file, f"{front}b.{other}", ck.reshape(H, 1))
                    write(file, f"{front}b.{gate}", bk.reshape(H, 1))
                else:  # the gradient of a sum is that of each addend
                    write(file, f"{front}b.{gate}", (bk if gradient else bk + ck).reshape(H, 1))
            if proj:
                write(file, f"{front}proj", get("weight_hr" + end))


def make(cell, proj):
    torch.manual_seed(1)
    kind, inputs, recurrents, states = CELLS[cell]
    options = {"proj_size": proj} if proj else {}
    net = kind(input_size=I, hidden_size=H, num_layers=L, bidirectional=True, **options).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(numbers(*parameter.shape))
    width = proj or H
    x = numbers(T, N, I).requires_grad_()
    initial = [numbers(2 * L, N, width if s == 0 else H).requires_grad_() for s in range(states)]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    packed_y, final = net(packed, tuple(initial) if states > 1 else initial[0])
    final = list(final) if states > 1 else [final]
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(packed_y, total_length=T)
    dy, dfinal = numbers(*y.shape), [numbers(*state.shape) for state in final]
    loss = (y * dy).sum() + sum((state * d).sum() for state, d in zip(final, dfinal))
    loss.backward()

    here = os.path.dirname(os.path.abspath(__file__))
    name = "golden_" + cell + ("-projected" if proj else "") + ".txt"
    with open(os.path.join(here, name), "w") as file:
        end = f"/P{proj}" if proj else ""
        print(f"case {cell}/f64/train/L{L}/bi/T{T}/N{N}/I{I}/H{H}{end}", file=file)
        write(file, "lengths", torch.tensor(LENGTHS))
        write(file, "x", x)
        write(file, "dy", dy)
        for s in range(states):
            write(file, f"initial{s}", initial[s])
            write(file, f"dfinal{s}", dfinal[s])
        write_params(file, net, inputs, recurrents, proj, False)
        write(file, "y", y)
        write(file, "dx", x.grad)
        for s in range(states):
            write(file, f"final{s}", final[s])
            write(file, f"dinitial{s}", initial[s].grad)
        write_params(file, net, inputs, recurrents, proj, True)


for each in CELLS:
    make(each, 0)
make("lstm", 2)
