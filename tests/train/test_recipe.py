"""The whole recipe on the sentences of the sample recording: sound → caches → training of our half, then of all → export → sherpa-onnx.

What it makes knows three sentences by heart; that it says them, with their end tokens, shows that every part fits the next.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from voiced.models import Library

torch = pytest.importorskip("torch", reason="training wants PyTorch: pip install '.[train]'")
for _name in ("sentencepiece", "kaldi_native_fbank", "onnx", "jiwer"):
    pytest.importorskip(_name, reason=f"training wants {_name}: pip install '.[train]'")

import soundfile  # noqa: E402
import voiced  # noqa: E402
from voicectl.evaluation import recognizers  # noqa: E402
from voicectl.evaluation.scores import word_errors  # noqa: E402
from voicectl.evaluation.sounds import with_quiet  # noqa: E402
from voicectl.evaluation.tracks import ending  # noqa: E402
from voiced.errors import InputError, ModelError  # noqa: E402
from voiced_train import align, batches, cache, curve, data, export, features, model, train, whisper  # noqa: E402

pytestmark = pytest.mark.slow  # a minute or two: .ci/run asks for it by name

RUNS = (("ctc", "f16", 160), ("path", "f16", 150), ("path", "banks", 8), ("rnnt", "banks", 4))
"""Phase, what it learns from (with .banks the encoder learns too), steps."""


@pytest.fixture(scope="module")
def bpe(library: Library) -> Path:
    return library.find("starter-en").files["bpe"]


@pytest.fixture(scope="module", autouse=True)
def _whisper() -> None:
    try:
        whisper.fetch()
    except ModelError as error:
        pytest.skip(f"no weights to begin with: {error}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, bpe: Path) -> Path:
    """A folder in which the recipe ran: manifest.jsonl, cache, run, export."""
    folder = tmp_path_factory.mktemp("recipe")
    sample = Path(str(voiced.__file__)).parent / "data"
    sound, rate = soundfile.read(sample / "sample.flac", dtype="float32")
    described = json.loads((sample / "sample.json").read_text())
    lines: list[dict[str, Any]] = []
    for row, part in enumerate([*described["turns"], *described["talk"]]):
        piece = sound[part["speech_start"] - 2000 : part["speech_end"] + 1600]
        soundfile.write(folder / f"{row}.flac", piece, rate)
        seconds = len(piece) / rate
        lines.append({"path": f"{row}.flac", "role": "synthetic", "seconds": seconds, "text": part["text"], "speaker": str(row)})
    rng = np.random.default_rng(0)
    for role in ("noise", "rir"):
        soundfile.write(folder / f"{role}.flac", 0.1 * rng.standard_normal(32000) * np.geomspace(1, 0.01, 32000), rate)
        lines.append({"path": f"{role}.flac", "role": role, "seconds": 2.0})
    (folder / "empty.flac").write_bytes(b"no sound")
    lines.append({"path": "empty.flac", "role": "asr", "seconds": 2.0, "text": "a corrupt file"})
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps({"source": "made", "licence": "CC0", **line}) + "\n" for line in lines))

    adapter, start = folder / "adapter.npy", folder / "start.npz"
    train_split = folder / "train.jsonl"
    splits, refused = data.split(data.read(manifest), dev=0, test=0)
    data.write(splits, refused, folder)
    good = [line for line in train_split.read_text().splitlines() if "empty.flac" not in line]
    only_good = folder / "good.jsonl"
    only_good.write_text("".join(f'{{"role": "asr", {line[1:]}\n' for line in good))
    assert features.main([str(only_good), "--out", str(adapter)]) == 0
    assert model.main(["--adapter", str(adapter), "--bpe", str(bpe), "--layers", "1", "--out", str(start)]) == 0
    for copy in range(3):
        told = ["--manifest", str(manifest), "--copy", str(copy)]
        assert cache.main([str(train_split), *told, "--out", str(folder / "f16"), "--weights", str(start)]) == 0
        assert cache.main([str(train_split), *told, "--out", str(folder / "banks")]) == 0
    weights = start
    for phase, form, steps in RUNS:
        caches = sorted(str(path) for path in (folder / form).glob(f"*.{form}"))
        run, few = folder / f"{phase}-{form}", ["--threads", "1", "--worst-score", "-3"]  # so young a model is sure of nothing
        told = ["--start", str(weights), "--out", str(run), "--bpe", str(bpe), "--rate", "2e-3" if form == "f16" else "1e-4"]
        assert train.main([phase, *caches, *told, "--steps", str(steps), "--dev", caches[0], *few]) == 0
        weights = run / "weights.npz"
    assert export.main([str(weights), "--out", str(folder / "export")]) == 0
    return folder


def test_it_says_what_it_was_taught_and_when_it_is_over(made: Path, library: Library, tmp_path: Path) -> None:
    int8 = recognizers.find(f"made={made / 'export'}", lambda: library)[0]
    stage = recognizers.load(int8, tmp_path)
    wrong = words = 0
    for line in (made / "good.jsonl").read_text().splitlines():
        fields = json.loads(line)
        sound, _ = soundfile.read(fields["path"], dtype="int16")
        track = recognizers.hear(stage, with_quiet(sound, len(sound), 32000, (0,)))
        errors = word_errors(fields["text"], track.text)
        wrong, words = wrong + errors.count, words + errors.words
        token = ending(track, len(sound) - 1600, -np.inf)
        assert not token.early
        assert token.within(round(0.8 * 16000))
    assert words == 18
    assert wrong <= 4  # a lead of another length than those it heard may cost it a word


def test_the_encoder_learned_gently_and_with_the_rest(made: Path) -> None:
    before, after = (model.load(made / f"path-{form}" / "weights.npz")[1].state_dict() for form in ("f16", "banks"))
    moved = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert {name.split(".")[0] for name in moved} == {"layers", "norm"}
    assert max(float((before[name] - after[name]).abs().max()) for name in moved) < 0.01


def test_where_words_end_is_found(made: Path, bpe: Path, tmp_path: Path) -> None:
    weights = ["--weights", str(made / "path-f16" / "weights.npz"), "--bpe", str(bpe)]
    assert align.main([str(made / "banks" / "train-0-1of1.banks"), *weights, "--out", str(tmp_path / "cuts.jsonl")]) == 0
    texts = {fields["path"]: fields for fields in map(json.loads, (made / "good.jsonl").read_text().splitlines())}
    found = cache.read_cuts(tmp_path / "cuts.jsonl")
    assert found.keys() == texts.keys()
    for path, cuts in found.items():
        assert [cut.words for cut in cuts] == list(range(2, len(texts[path]["text"].split())))
        assert all(0 < cut.start < cut.end < texts[path]["seconds"] * 16000 + 9600 for cut in cuts)


def test_what_cannot_be_used_is_named_and_left_out(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--manifest", str(made / "manifest.jsonl"), "--out", str(made / "banks")]
    before = (made / "banks" / "train-0-1of1.jsonl").read_bytes()
    assert cache.main([str(made / "train.jsonl"), *told, "--copy", "0"]) == 0  # goes on where it was: nothing is made twice
    said = capsys.readouterr()
    assert "3 kept, 1 refused" in said.out
    assert "empty.flac: cannot be read as sound" in said.err
    assert (made / "banks" / "train-0-1of1.jsonl").read_bytes() == before


@pytest.mark.parametrize("form", ["f16", "banks"])
def test_a_cache_that_a_crash_cut_short_is_mended(made: Path, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"train.{form}"
    for one in (path, path.with_suffix(".jsonl")):
        one.write_bytes((made / form / f"train-0-1of1{one.suffix}").read_bytes())
    size = path.stat().st_size
    with path.open("ab") as rows:
        rows.write(b"rows without their line")
    with path.with_suffix(".jsonl").open("a") as index:
        index.write('{"path": "half a li')
    cache.Writer(path).close()
    assert path.stat().st_size == size
    assert len(cache.Cache(path).entries) == 3


def test_labels_that_cannot_be_learned_are_refused_and_counted(made: Path, tmp_path: Path, bpe: Path) -> None:
    import sentencepiece

    for suffix in (".banks", ".jsonl"):
        (tmp_path / f"bad{suffix}").write_bytes((made / "banks" / f"train-0-1of1{suffix}").read_bytes())
    index = tmp_path / "bad.jsonl"
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    for line, text in zip(lines, ("", "ünïcode", "much too long " * 100), strict=True):
        line["sentences"][0]["text"] = text
    index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    refused = batches.read([tmp_path / "bad.banks"], sentencepiece.SentencePieceProcessor(model_file=str(bpe)))[1]
    assert refused == {"empty text": 1, "out of the vocabulary": 1, "too short for its labels": 1}
    told = ["--start", str(made / "start.npz"), "--out", str(tmp_path / "run"), "--bpe", str(bpe), "--steps", "1"]
    assert train.main(["path", str(tmp_path / "bad.banks"), *told]) == InputError.exit_code


def test_a_file_that_is_no_cache_is_named(made: Path, tmp_path: Path, bpe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--start", str(made / "start.npz"), "--out", str(tmp_path), "--bpe", str(bpe), "--steps", "1"]
    assert train.main(["path", str(made / "manifest.jsonl"), *told]) == InputError.exit_code
    assert "name a file that ends in .banks or .f16" in capsys.readouterr().err
    both = [str(made / form / f"train-0-1of1.{form}") for form in ("f16", "banks")]
    assert train.main(["path", *both, *told]) == InputError.exit_code
    assert "are of two kinds" in capsys.readouterr().err


@pytest.mark.parametrize("until", ["--minutes", "--steps"])
@pytest.mark.parametrize("number", ["0", "-1", "nan"])
def test_no_time_at_all_is_no_training(until: str, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        train.main(["path", "a.banks", "--start", "s", "--out", "o", "--bpe", "b", until, number])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("--minutes and --steps must be numbers above 0\n")


def test_training_goes_on_where_it_was(made: Path, bpe: Path, tmp_path: Path) -> None:
    told = [
        "path",
        str(made / "banks" / "train-0-1of1.banks"),
        "--start",
        str(made / "start.npz"),
        "--out",
        str(tmp_path),
        "--bpe",
        str(bpe),
        "--threads",
        "1",
    ]
    for steps in (2, 5):
        assert train.main([*told, "--steps", str(steps)]) == 0
        assert torch.load(tmp_path / "state.pt")["step"] == steps


def test_the_curve_is_a_picture(made: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    logs = [str(made / run / "log.jsonl") for run in ("ctc-f16", "path-f16", "path-banks")]
    assert curve.main([*logs, "--out", str(tmp_path / "curve.png")]) == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_end_tokens_bias_beats_the_blank_and_never_a_piece() -> None:
    top = model.Top(model.Shape(symbols=4, layers=1, joint=4))
    joiner = export.Joiner(top, 3.0)
    with torch.no_grad():
        top.output.weight.zero_()
        for bias, best in (([2.0, 0, 0, 0], 3), ([2.0, 2.5, 0, 0], 1), ([4.0, 0, 0, 0], 0), ([0.0, 1, 0, 2], 3)):
            top.output.bias.copy_(torch.tensor(bias))
            assert int(joiner(torch.zeros(1, 4), torch.zeros(1, 4)).argmax()) == best


def test_weights_of_another_form_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    np.savez(path, nothing=np.zeros(3))
    with pytest.raises(ModelError, match=r"is no weights\.npz of this recipe"):
        model.load(path)
