"""What int8 changes in trained nets: embeddings of Resemblyzer, and speech probabilities of silero-vad.

    python real_nets.py AUDIO...

AUDIO is WAV or FLAC with speech, 16 kHz.  The figures in doc/guide/types-and-devices.md are of 31 files: test.wav of
silero-vad's tests, and of LibriSpeech test-other the utterances 0000 to 0002 of 1688-142285, 1998-15444, 2033-164914,
2414-128291, 2609-156975, 3005-163389, 3080-5032, 3331-159605, 367-130732 and 533-1066.
The weights are those of the packages resemblyzer and silero-vad.  Their LSTMs run in PyTorch in F32, Resemblyzer's also
in PyTorch's int8, and as ecornn.Layer in F32, int8-weights and int8; of Resemblyzer's three layers also with the first
in F32, whose inputs have no bound.  All else is the packages' own.
Printed, compared with PyTorch in F32: for embeddings of whole files and of their parts of 1.6 s the least and the
mean cosine; for frames of 32 ms the share of equal decisions (probability above 0.5) and the largest difference of a
probability.  Needs torch, resemblyzer, silero-vad and soundfile.
"""
import re
import sys
import warnings

import numpy
import torch

import ecornn

RATE, FRAME, CONTEXT = 16000, 512, 64
WAYS = {"f32": {}, "int8-weights": {"weights": "int8-weights"}, "int8": {"weights": "int8"}}


def layers_of(states, count, ways):
    """One layer for each way, or all in one, with torch's weights [4H,I], [4H,H] and biases [4H]."""
    each = count // len(ways)
    for k, way in enumerate(ways):
        own = {re.sub(r"\d+$", lambda number: str(int(number[0]) - k * each), name): value.numpy()
               for name, value in states.items() if k * each <= int(name.rpartition("_l")[2]) < (k + 1) * each}
        layer = ecornn.Layer("lstm", own["weight_ih_l0"].shape[1], own["weight_hh_l0"].shape[1], layers=each,
                             **WAYS[way])
        layer.load("torch", own)
        yield layer


class Outputs(torch.nn.Module):
    """Layers where VoiceEncoder has an nn.LSTM with batch_first: mels [N,T,40]; of the states it reads h."""

    def __init__(self, layers):
        super().__init__()
        self.layers = list(layers)

    def forward(self, mels):
        y = numpy.ascontiguousarray(mels.numpy().swapaxes(0, 1))
        for layer in self.layers:
            y, (h, c) = layer(y)
        return torch.from_numpy(y), (torch.from_numpy(h), torch.from_numpy(c))


def embeddings(speech):
    """Cosines of every embedding with that of PyTorch, by way."""
    from resemblyzer import VoiceEncoder, preprocess_wav
    encoder = VoiceEncoder("cpu", verbose=False)
    lstm, states = encoder.lstm, encoder.lstm.state_dict()
    waves = [preprocess_wav(wave, RATE) for wave in speech]

    def all_of():
        found = [encoder.embed_utterance(wave, return_partials=True)[:2] for wave in waves]
        return [numpy.stack([whole for whole, _ in found]), numpy.concatenate([parts for _, parts in found])]
    expected = all_of()
    first = [["f32", way, way] for way in ("int8-weights", "int8")]
    for way in [["torch-int8"], *([way] * 3 for way in WAYS), *first]:
        encoder.lstm = (torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(lstm))[0]
                        if way == ["torch-int8"] else Outputs(layers_of(states, lstm.num_layers, way)))
        for name, ours, theirs in zip(("files", "parts"), all_of(), expected):
            cosine = (ours * theirs).sum(1) / numpy.linalg.norm(ours, axis=1) / numpy.linalg.norm(theirs, axis=1)
            yield f"resemblyzer,{' '.join(way)},{len(cosine)} {name},{cosine.min():.6f},{cosine.mean():.6f}"


def frames(wave):
    """Frames with the end of the one before: [T, CONTEXT + FRAME]."""
    count = len(wave) // FRAME
    padded = numpy.concatenate([numpy.zeros(CONTEXT), wave[:count * FRAME]])
    return torch.tensor(numpy.stack([padded[k * FRAME:(k + 1) * FRAME + CONTEXT] for k in range(count)]),
                        dtype=torch.float32)


def decisions(speech):
    """Probabilities of speech compared with those of PyTorch, by way."""
    import silero_vad
    model = silero_vad.load_silero_vad()
    net = model._model
    states = {f"{name}_l0": value for name, value in net.decoder.rnn.state_dict().items()}
    expected, features = [], []
    for wave in speech:
        model.reset_states()
        count = len(wave) // FRAME
        parts = torch.tensor(wave[:count * FRAME], dtype=torch.float32).reshape(count, 1, FRAME)
        expected += [float(model(part, RATE)) for part in parts]
        features.append(torch.cat([net.encoder(net.run_extractors(each[None])) for each in frames(wave)]))
    expected = numpy.float64(expected)
    for way in WAYS:
        layer, = layers_of(states, 1, [way])
        found = []
        for each in features:  # [T,128,1]
            y, _ = layer(numpy.ascontiguousarray(each.numpy().swapaxes(1, 2)))
            found.append(net.decoder.decoder(torch.from_numpy(y).swapaxes(1, 2)).numpy().ravel())
        found = numpy.concatenate(found)
        equal = ((found > 0.5) == (expected > 0.5)).mean()
        yield (f"silero-vad,{way},{len(found)} frames,{equal:.5f},"
               f"{numpy.abs(found - expected).max():.5f}")


def read(path):
    import soundfile
    wave, rate = soundfile.read(path, dtype="float32")
    if rate != RATE or wave.ndim != 1:
        sys.exit(f"{path} has {rate} Hz and shape {wave.shape}, must have {RATE} Hz and one channel")
    return wave


def main(paths):
    if not paths:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    speech = [read(path) for path in paths]
    print(f"# {len(speech)} files, {sum(map(len, speech)) / RATE:.0f} s; ecornn {ecornn.version()}")
    print("net,way,compared,least cosine or equal decisions,mean cosine or largest difference", flush=True)
    with torch.inference_mode():
        for lines in (embeddings, decisions):
            for line in lines(speech):
                print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
