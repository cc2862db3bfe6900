"""Settings and models become stages, and stages a pipeline.

What lives here: the one place that knows which setting goes to which constructor. What must not: threads, processes.
`say` is told what is about to be loaded, so that when a library ends the whole process (sherpa-onnx does, on some bad
models) whoever started the process can name the culprit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from .audio import Ring, Samples
from .ears import VAD_HOP, WAKE_HOP, Ears, Spotting
from .endpoint import Endpointer
from .errors import ModelError, VoicedError
from .events import DropRewrite, Rewrite, Rewritten
from .models import Library, Model
from .phrases import PhraseSettings, WakeSettings, heads, plain, texts
from .pipeline import RING_SECONDS, Pipeline, Rules, Scribe
from .placement import provider_options
from .settings import Settings, endpoint_of, has_second_pass, listens_always
from .spelling import pieces_of, spell, text_role
from .stages.acoustic import AcousticModel
from .stages.approach import Approach
from .stages.gate import Gate
from .stages.keywords import Keywords, TextPhrase
from .stages.llama_server import LlamaServer
from .stages.phrase import PhraseVerifier, Wanted
from .stages.second_pass import SecondPass, SecondPassStage
from .stages.sherpa import Spotter, provider
from .stages.transducer import Transducer
from .stages.turn_detector import TurnDetector
from .stages.vad import Vad
from .stages.wake import Crossing, SpeechVerifier, Stage1, Verifier, words
from .turnrules import TurnRules
from .units import RATE, to_samples

Say = Callable[[str], None]
T = TypeVar("T")


def new_ring() -> Ring:
    return Ring(RING_SECONDS * RATE)


def ears(settings: Settings, library: Library, ring: Ring, runtime_dir: Path, say: Say, *, lane: str = "") -> Ears:
    """Gate, wake stage 1 and VAD of that lane, warmed up. Built by the thread that will own them. Raises ModelError."""
    vad = Vad(_find(library, settings.models.vad, "vad", say)["model"])
    vad.warm_up()
    return Ears(ring, vad, spotting(settings, library, runtime_dir, say, lane=lane), always=listens_always(settings, lane))


def spotting(
    settings: Settings, library: Library, runtime_dir: Path, say: Say, before: Spotting | None = None, *, lane: str = ""
) -> Spotting:
    """What that lane's ears listen for; what is made of the same is `before`'s. Any thread may build it. Raises ModelError."""
    wake, phrases, echo_tail = settings.wake, settings.wake.phrases, to_samples(settings.playback.echo_ms)
    if not phrases or listens_always(settings, lane):
        return Spotting(None, None, (), (), 0, echo_tail=echo_tail)
    parts: dict[Hashable, Any] = {}

    def part(made_of: Hashable, make: Callable[[], T]) -> T:
        old = before.parts.get(made_of) if before else None
        parts[made_of] = make() if old is None else old
        found: T = parts[made_of]
        return found

    stage1 = keywords = None
    trained, given = heads(phrases), texts(phrases)
    if trained:
        names = {phrase.phrase: (phrase.phrase, "wake-head") for phrase in trained}
        wanted = {**names, "": (settings.models.wake_embedding, "wake-embedding")}
        made_of = tuple((name, _versions(library.find(*model).files)) for name, model in wanted.items())
        stage1 = part(made_of, lambda: _stage1({name: _find(library, *model, say)["model"] for name, model in wanted.items()}))
    if given:
        model = library.model(settings.models.wake_text)
        role = text_role(model)
        heard_by = library.find(model.id, role).files
        engine = (Spotter, *_versions(heard_by))
        spotter = part(engine, lambda: Spotter(model.kind, _find(library, model.id, role, say), provider=provider(runtime_dir)))
        spelled = _spelled(given, heard_by)
        keywords = part((Keywords, engine, spelled), lambda: _keywords(spelled, spotter, model))
    gate = part(settings.gate, lambda: _gate(settings)) if settings.gate.enabled else None
    crossings, approaches = [], []
    for phrase in trained:
        # what is refused or ignored is the scribe's business, so a crossing here is forgotten once the score was low
        wait, refractory = wait_hops(wake, phrase.hops), to_samples(wake.refractory_ms) // WAKE_HOP
        crossings.append(part((Crossing, phrase, wait), partial(Crossing, threshold=phrase.threshold, hops=phrase.hops, wait_hops=wait)))
        near = partial(Approach, threshold=phrase.threshold, wait_hops=wait, refractory_hops=refractory)
        approaches.append(part((Approach, phrase, wait, refractory), near))
    return Spotting(gate, stage1, tuple(crossings), tuple(approaches), to_samples(wake.phrase_end_ms), parts, keywords, echo_tail)


def wait_hops(wake: WakeSettings, hops: int) -> int:
    """Scores from the first that counts on, before the second stage is asked: what makes a crossing, and what a verdict wants, at least."""
    return max(to_samples(wake.verify_wait_ms) // WAKE_HOP + 1, hops, wake.verify_hops)


def _stage1(files: Mapping[str, Path]) -> Stage1:
    """Of the heads by their phrases; the embedding's name is empty."""
    stage1 = Stage1({name: path for name, path in files.items() if name}, files[""])
    stage1.warm_up()
    return stage1


def _keywords(phrases: Sequence[TextPhrase], spotter: Spotter, model: Model) -> Keywords:
    keywords = Keywords(phrases, spotter, chunk_ms=model.chunk_ms, frame_ms=model.frame_ms, tail_ms=model.tail_ms)
    keywords.warm_up()
    return keywords


def _spelled(given: Sequence[PhraseSettings], files: Mapping[str, Path]) -> tuple[TextPhrase, ...]:
    try:
        return spell(given, pieces_of(files))
    except ValueError as error:  # of settings from a file it was told before, with its line
        raise ModelError("wake.phrases", str(error), "name another model in models.wake_text") from None


def _gate(settings: Settings) -> Gate:
    return Gate(margin_db=settings.gate.margin_db, floor_dbfs=settings.gate.floor_dbfs, hold_ms=settings.gate.hold_ms)


def _versions(files: Mapping[str, Path]) -> tuple[tuple[Path, int, int], ...]:
    """What tells files from others that are written under their names later: a head that was trained again. Nothing is read."""
    stats = {path: path.stat() for path in files.values()}
    return tuple((path, found.st_mtime_ns, found.st_size) for path, found in stats.items())


def scribe(
    settings: Settings,
    library: Library,
    ring: Ring,
    runtime_dir: Path,
    say: Say,
    rewrite: Callable[[Rewrite, Samples], Rewritten | None],
    rest: Callable[[int], None],
    *,
    drop: Callable[[DropRewrite], None] = lambda _: None,
    lane: str = "",
    first_turn: int = 1,
    turn_step: int = 1,
) -> Scribe:
    """Wake stage 2, transducer and machine of that lane, warmed up. Built by the thread that will own them. Raises ModelError."""
    stage, judging = transducer(settings, library, runtime_dir, say), rules(settings, library, say, lane=lane)
    always = listens_always(settings, lane)
    return Scribe(ring, stage, rewrite, rest, judging, drop=drop, first_turn=first_turn, turn_step=turn_step, always=always)


def transducer(settings: Settings, library: Library, runtime_dir: Path, say: Say) -> Transducer:
    """The first pass, warmed up. Raises ModelError."""
    model = settings.models.transducer
    files = _find(library, model, "transducer", say)
    facts = library.model(model)
    stage = Transducer(
        facts.kind,
        files,
        frame_ms=facts.frame_ms,
        lookahead_ms=facts.lookahead_ms,
        chunk_ms=facts.chunk_ms,
        tail_ms=facts.tail_ms,
        end_token=facts.end_token,
        provider=provider(runtime_dir),
        lead_in_ms=settings.transducer.lead_in_ms,
        threads=settings.transducer.threads,
        paths=settings.transducer.paths,
        language=settings.transducer.language,
    )
    stage.warm_up()
    return stage


def rules(settings: Settings, library: Library, say: Say, before: Rules | None = None, *, lane: str = "") -> Rules:
    """How the scribe decides; what is costly is `before`'s where nothing of it has changed. Any thread may build it. Raises ModelError."""
    wake, endpoint = settings.wake, endpoint_of(settings, lane)
    if listens_always(settings, lane):
        wake = replace(wake, phrases=())
        settings = replace(settings, wake=wake)
    verifier = wake_verifier(settings, library, say, before.verifier if before else None)
    detector = before.turn_detector if before else None
    if endpoint.turn_detector != "off" and detector is None:
        detector = TurnDetector(_find(library, endpoint.turn_detector, "turn-detector", say)["model"])
        detector.warm_up()
    return Rules(turn_rules(settings, lane), verifier, wake.refractory_ms, endpoint.audio_lost_ms, detector)


def wake_verifier(settings: Settings, library: Library, say: Say, before: Verifier | None = None) -> Verifier:
    """The wake phrase's second stage; its model is `before`'s where that is the same. Any thread may build it. Raises ModelError."""
    wake = settings.wake
    by_score = SpeechVerifier(threshold=wake.verify_threshold, sustain=wake.verify_hops, min_speech=wake.verify_speech)
    if wake.verifier != "phrase" or not wake.phrases:
        return by_score
    name = settings.models.wake_verifier
    files = library.find(name, "transducer").files
    made_of = _versions(files)
    old = before.model if isinstance(before, PhraseVerifier) else None
    model = old if old and old.made_of == made_of else AcousticModel(_find(library, name, "transducer", say), made_of=made_of)
    pieces = pieces_of(files)
    phrases = {}
    for entry in wake.phrases:
        where = "" if entry.text else str(library.find(entry.phrase, "wake-head").files["model"])
        if said := plain(entry.text or words(Path(where))):
            try:
                evidence = wake.verify_evidence if entry.verify_evidence is None else entry.verify_evidence
                phrases[entry.name] = Wanted(pieces.encode(said), evidence)
            except ValueError as error:
                advice = "name another model in models.wake_verifier, or set wake.verifier to score"
                raise ModelError(where or name, str(error), advice) from None
    verifier = PhraseVerifier(model, phrases, by_score, tail_ms=wake.phrase_tail_ms)
    if model is not old:
        verifier.warm_up()
    return verifier


def second_pass(settings: Settings, library: Library, runtime_dir: Path, say: Say) -> SecondPass | LlamaServer:
    """The second pass, warmed up. Raises ModelError."""
    if address := settings.second_pass.server:
        say(f"the model of {address}")
        server = LlamaServer(address, seconds=settings.second_pass.deadline_ms / 1000 + 1)  # its own lateness is told by the lane
        server.warm_up()
        return server
    model = settings.models.second_pass
    files = _find(library, model, "second-pass", say)
    facts = library.model(model)
    stage = SecondPass(
        facts.kind,
        files,
        provider=_second_pass_provider(settings, runtime_dir),
        threads=settings.second_pass.threads,
        tail_ms=facts.tail_ms,
    )
    stage.warm_up()
    return stage


def pipeline(settings: Settings, library: Library, runtime_dir: Path, say: Say = lambda _: None, *, lane: str = "") -> Pipeline:
    """The whole of it in one thread, the second pass included: nothing is measured against a deadline. `lane` as in `endpoint_of`."""
    ring = new_ring()
    hearing = ears(settings, library, ring, runtime_dir, say, lane=lane)
    rewriter = second_pass(settings, library, runtime_dir, say) if has_second_pass(settings) else None

    def rewrite(order: Rewrite, sound: Samples) -> Rewritten | None:
        assert rewriter is not None  # the machine asks for none where the settings have none
        return answer(rewriter, order.sample, order.turn, order.attempt, sound)

    return Pipeline(hearing, scribe(settings, library, ring, runtime_dir, say, rewrite, hearing.rest, lane=lane))


def answer(stage: SecondPassStage, sample: int, turn: int, attempt: int, sound: Samples) -> Rewritten:
    """One turn through the second pass, timed; what goes wrong inside the library is the answer's failure."""
    began = time.perf_counter_ns()
    try:
        text, failure = stage.decode(sound), ""
    except Exception as error:  # its type is the library's own business; the turn keeps its first-pass text
        text, failure = "", f"the second pass failed: {error if isinstance(error, VoicedError) else type(error).__name__}"
    compute_ms = round((time.perf_counter_ns() - began) / 1e6, 3)
    return Rewritten(sample, turn, attempt, text, failure, compute_ms, None if failure else stage.log_probability)


def _second_pass_provider(settings: Settings, runtime_dir: Path) -> str:
    place = settings.placement
    options = provider_options(place.second_pass_provider, threads=settings.second_pass.threads, ai_cores=place.second_pass_ai_cores)
    return provider(runtime_dir, place.second_pass_provider, options)


def turn_rules(settings: Settings, lane: str = "") -> TurnRules:
    """How the heart judges a turn of that lane."""
    endpoint, vad = endpoint_of(settings, lane), settings.vad
    return TurnRules(
        Endpointer(
            token_threshold=endpoint.token_threshold,
            token_silence_ms=endpoint.token_silence_ms,
            foreseen_silence_ms=endpoint.foreseen_silence_ms,
            silence_complete_ms=endpoint.silence_complete_ms,
            silence_ms=endpoint.silence_ms,
            silence_open_ms=endpoint.silence_open_ms,
            no_text_ms=endpoint.no_text_ms,
            no_speech_ms=endpoint.no_speech_ms,
            too_long_ms=endpoint.too_long_ms,
            likely_end_ms=endpoint.likely_end_ms,
            turn_detector_threshold=endpoint.turn_detector_threshold,
        ),
        vad_on=vad.on,
        vad_off=vad.off,
        vad_hop=VAD_HOP,
        min_speech_ms=vad.min_speech_ms,
        lead_pad_ms=settings.second_pass.lead_pad_ms,
        tail_pad_ms=settings.second_pass.tail_pad_ms,
        end_token=settings.transducer.end_token,
        foresight=endpoint.foresight,
        open_ends=endpoint.open_ends != "off",
        turn_detector=endpoint.turn_detector != "off",
        second_pass=has_second_pass(settings),
        speculative=settings.second_pass.speculative,
        guard=settings.second_pass.guard,
    )


def _find(library: Library, model: str, role: str, say: Say) -> Mapping[str, Path]:
    found = library.find(model, role)
    say(f"{role} {model} ({found.directory})")
    # by the process that loads it, just before: a damaged model is not always refused by its library, which may also end the process
    library.verify(model)
    return found.files
