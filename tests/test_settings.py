"""The settings table, its strict reader and its commented file."""

# ruff: noqa: E501  a line that a user reads stands here whole

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced import boards, knobs, settings, settingsfile
from voiced.errors import ConfigError
from voiced.phrases import PhraseSettings
from voiced.settings import LaneSettings, Settings, parse

ROOT = Path(__file__).parents[1]


def mistakes(text: str, on: str = "") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f", on)
    assert caught.value.exit_code == 78
    assert all("\n" not in line and line.isprintable() for line in caught.value.lines)
    return list(caught.value.lines)


# ── the table ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def every_row(kind: Any = Settings, key: Any = "") -> Any:
    for name, row in knobs.rows(kind).items():
        path = f"{key}{name}"
        yield path, row
        if row.section or row.item:
            yield from every_row(row.item or row.type, f"{path}.")


@pytest.mark.parametrize(("path", "row"), list(every_row()), ids=lambda value: value if isinstance(value, str) else "")
def test_each_knob_has_a_sentence_a_default_that_fits_and_bounds(path: str, row: Any) -> None:
    assert row.knob.sentence
    if row.section:
        return
    assert row.knob.sentence.endswith(".")
    assert knobs.fits(row, row.knob.default)
    if row.type in (int, float):
        assert row.knob.low is not None
        assert row.knob.high is not None
        assert row.knob.low < row.knob.high
    if row.knob.pattern:
        assert row.knob.form, "a pattern is told in words"


def test_sections_are_frozen_and_slotted() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.defaults().vad.on = 1  # type: ignore[misc]
    assert not hasattr(settings.defaults().vad, "__dict__")


def test_the_file_in_the_repository_is_made_from_the_table() -> None:
    """CASES S12."""
    assert (ROOT / "config/voiced.yaml").read_text() == settings.render_yaml(), "run: python -m voiced.settings > config/voiced.yaml"


def test_the_module_prints_that_file() -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT / "daemon")}
    printed = subprocess.run([sys.executable, "-m", "voiced.settings"], capture_output=True, text=True, check=True, env=env, timeout=60)
    assert printed.stdout == settings.render_yaml()
    assert max(map(len, printed.stdout.splitlines())) <= 120


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "\ufeff", "vad:\n", "vad: {}\n", "vad:\n  # on: 3\nbus:\n"])
def test_an_empty_file_gives_the_defaults(text: str) -> None:
    assert parse(text, "f") == settings.defaults()


def test_the_commented_file_reads_as_the_defaults() -> None:
    assert settingsfile.read(ROOT / "config/voiced.yaml") == settings.defaults()


def test_the_k3_file_is_right_everywhere() -> None:
    read = settingsfile.read(ROOT / "config/k3.yaml", on="k3")
    assert read == settingsfile.read(ROOT / "config/k3.yaml")
    assert settings.check_board(read, boards.K3) == []
    assert read.placement.second_pass_provider == "spacemit"
    assert len(read.placement.second_pass_ai_cores) == read.second_pass.threads


def test_the_file_for_folders_is_the_vendors_defaults() -> None:
    read = settingsfile.read(ROOT / "config/k3-streams.yaml")
    assert (read.endpoint.profile, read.endpoint.silence_ms, read.endpoint.too_long_ms) == ("k3", 500, 10_000)
    assert (read.second_pass.lead_pad_ms, read.second_pass.tail_pad_ms) == (100, 100)


def test_importing_settings_imports_nothing_heavy() -> None:
    script = "import sys, voiced.settings; print(sorted({'yaml', 'numpy', 'onnxruntime', 'asyncio'} & set(sys.modules)))"
    env = os.environ | {"PYTHONPATH": str(ROOT / "daemon")}
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env, timeout=60).stdout == "[]\n"


# ── any settings ───────────────────────────────────────────────────────────────────────────────────────────────────────


def values(row: Any) -> Any:
    knob = row.knob
    if row.section:
        return (st.none() if row.optional else st.nothing()) | sections(row.type)
    if row.item:
        return st.lists(sections(row.item), min_size=int(knob.low), max_size=min(int(knob.high), 4)).map(tuple)
    if knob.choices:
        return st.sampled_from(knob.choices)
    if row.type is bool:
        return st.booleans()
    if row.type is int:
        return st.integers(int(knob.low), int(knob.high))
    if row.type is float:
        return (st.none() if row.optional else st.nothing()) | st.floats(knob.low, knob.high)
    if row.type is str:
        known = [
            knob.default,
            "no",
            "on",
            "1",
            "010",
            "1:30",
            "null",
            "a-b_9",
            "auto",
            "mix",
            "/a b/#c: 'd' \\ \"é\"",
            "x: y",
            "unix:path=/x",
        ]
        return st.sampled_from([text for text in known if knobs.fits(row, text)])
    return st.lists(st.integers(0, 7), unique=True, max_size=4).map(tuple)


def sections(kind: Any) -> Any:
    return st.builds(kind, **{name: values(row) for name, row in knobs.rows(kind).items()})


@given(sections(Settings))
def test_any_settings_come_back_from_json_exactly(any_settings: Settings) -> None:
    assert settings.from_plain(json.loads(json.dumps(settings.to_plain(any_settings)))) == any_settings


@given(sections(Settings))
def test_any_settings_come_back_from_yaml_exactly(any_settings: Settings) -> None:
    """The reader alone: rules between keys are another test's."""
    from voiced.yamlread import Reader, compose

    node, found = compose(settings.render_yaml(any_settings))
    reader = Reader(found)
    read = reader.section(Settings, node)
    assert (settings.inherited(read, reader.lines), reader.mistakes) == (any_settings, [])


@pytest.mark.fuzz
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_no_text_whatever_gives_another_error(text: str) -> None:
    gives_settings_or_lines(text)


def gives_settings_or_lines(text: str) -> None:
    try:
        parse(text, "f")
    except ConfigError as error:
        assert error.lines
        assert all("\n" not in line for line in error.lines)


LINES = (
    "vad:",
    "  on: 0.6",
    "  off: [1, 2]",
    "lanes:",
    "  - name: a",
    "    channel: 1",
    "- x",
    "  - {}",
    "wake: {phrases: []}",
    "? [a]: b",
    ": x",
    "placement: {ears: [0]}",
    "  - - - -",
    "a: &b [*b]",
    "<<: *b",
    "vad: !!float 3",
    "--- {}",
    "...",
    "\t",
    "log: 'x",
    "  text: on",
    "12: 3",
)


@pytest.mark.fuzz
@given(st.lists(st.sampled_from(LINES), max_size=12).map("\n".join))
def test_no_file_of_likely_lines_gives_another_error(text: str) -> None:
    gives_settings_or_lines(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.pop("vad"),
        lambda plain: plain["vad"].pop("on"),
        lambda plain: plain["vad"].update(on="0.5"),
        lambda plain: plain["vad"].update(on=float("nan")),
        lambda plain: plain["vad"].update(more=1),
        lambda plain: plain.update(lanes=[]),
        lambda plain: plain.update(vad=None),
        lambda plain: plain["lanes"].append("main"),
        lambda plain: plain["placement"].update(ears=[True]),
        lambda plain: plain["second_pass"].update(threads=True),
    ],
)
def test_a_plain_form_that_is_not_ours_is_refused(change: Any) -> None:
    plain = settings.to_plain(settings.defaults())
    change(plain)
    with pytest.raises(ConfigError):
        settings.from_plain(plain)


# ── one mistake, one line ──────────────────────────────────────────────────────────────────────────────────────────────

ONE = {
    "vad:\n  on: 2": "f:2: vad.on: must be a number from 0.02 to 1; got 2; default 0.5",
    "vad:\n  on: nan": "f:2: vad.on: must be a number from 0.02 to 1; got nan; default 0.5",
    "vad:\n  on: .inf": "f:2: vad.on: must be a number from 0.02 to 1; got .inf; default 0.5",
    "vad:\n  on: 1e999": "f:2: vad.on: must be a number from 0.02 to 1; got 1e999; default 0.5",
    "vad:\n  on:": "f:2: vad.on: must be a number from 0.02 to 1; got nothing; default 0.5",
    "vad:\n  on: ~": "f:2: vad.on: must be a number from 0.02 to 1; got ~; default 0.5",
    "vad:\n  on: [0.5]": "f:2: vad.on: must be a number from 0.02 to 1; got [0.5]; default 0.5",
    "vad:\n  on: '0.5'": 'f:2: vad.on: must be a number from 0.02 to 1; got "0.5"; default 0.5',
    "vad:\n  on: {a: b}": "f:2: vad.on: must be a number from 0.02 to 1; got a section; default 0.5",
    "vad:\n  om: 0.5": "f:2: vad.om: no such setting; did you mean on?",
    "vads:\n  on: 0.5": "f:1: vads: no such section; did you mean vad?",
    "vad:\n  on: 0.6\n  on: 0.6": "f:3: vad.on: must be given once; it is on line 2 already",
    "vad: {}\nvad: {}": "f:2: vad: must be given once; it is on line 1 already",
    "gate:\n  hold_ms: 1_000": "f:2: gate.hold_ms: must be a number from 100 to 60000 (milliseconds); got 1_000; default 2000",
    "gate:\n  hold_ms: 1:30": "f:2: gate.hold_ms: must be a number from 100 to 60000 (milliseconds); got 1:30; default 2000",
    "gate:\n  hold_ms: 010": "f:2: gate.hold_ms: must be a number from 100 to 60000 (milliseconds); got 010; default 2000",
    "second_pass: {threads: 0x10}": "f:1: second_pass.threads: must be a whole number from 1 to 64; got 0x10; default 1",
    "second_pass: {threads: 2.0}": "f:1: second_pass.threads: must be a whole number from 1 to 64; got 2.0; default 1",
    "second_pass: {threads: " + "9" * 5000 + "}": "f:1: second_pass.threads: must be a whole number from 1 to 64; got "
    + "9" * 57
    + "…; default 1",
    "log: {text: 1}": "f:1: log.text: must be true or false; got 1; default false",
    "log: {text: 'yes'}": 'f:1: log.text: must be true or false; got "yes"; default false',
    "log: {level: INFO}": 'f:1: log.level: must be one of debug, info, warning, error; got INFO; default "info"',
    "log: 3": "f:1: log: must be a section of `name: value` lines; got 3",
    "log: [text]": "f:1: log: must be a section of `name: value` lines; got [text]",
    "- log": "f:1: must be `name: value` lines; got [log]",
    "words": "f:1: must be `name: value` lines; got words",
    "lanes: 3": "f:1: lanes: must be a list of 1 to 8 entries, each with name, source, listen, channel, endpoint; got 3",
    "lanes:": "f:1: lanes: must be a list of 1 to 8 entries, each with name, source, listen, channel, endpoint; got nothing",
    "lanes: []": "f:1: lanes: must be a list of 1 to 8 entries, each with name, source, listen, channel, endpoint; got []",
    "lanes: ["
    + ", ".join(f"{{name: l{n}}}" for n in range(9))
    + "]": "f:1: lanes: must be a list of 1 to 8 entries, each with name, source, listen, channel, endpoint; got a list of 9",
    "lanes:\n - name: a b": 'f:2: lanes[0].name: must be a name of letters, digits, _ and -; got a b; default "main"',
    "lanes:\n - source: file:x.wav": "f:2: lanes[0].source: must be auto, a device's id, name or number, file:/PATH, loop:/PATH (again and again), or "
    "a socket that sends sound: unix:/PATH, tcp:HOST:PORT; "
    'got file:x.wav; default "auto"',
    "lanes:\n - name: a\n   source: file:/none/x.wav": 'f:3: lanes[0].source: must be a file that exists; got "file:/none/x.wav"; default "auto"',
    "lanes:\n - name: a\n   source: loop:/none/x.wav": 'f:3: lanes[0].source: must be a file that exists; got "loop:/none/x.wav"; default "auto"',
    "lanes: [{source: tcp:h:70000}]": 'f:1: lanes[0].source: must have a port from 1 to 65535; got "tcp:h:70000"; default "auto"',
    "lanes: [{listen: never}]": 'f:1: lanes[0].listen: must be one of phrase, always; got never; default "phrase"',
    "lanes:\n - name: a\n - name: a": 'f:3: lanes[1].name: each name must be in the list once; got "a", "a"; default "main", "main"',
    "lanes:\n - channel: mix\n - channel: 1": 'f:3: lanes[1].name: each name must be in the list once; got "main", "main"; default "main", "main"',
    "models: {path: /none}": 'f:1: models.path: must be a folder that exists; got "/none"; default ""',
    "vad:\n  on: 0.3": "f:2: vad.on: vad.off must be less than vad.on; got 0.35, 0.3; default 0.35, 0.5",
    "vad:\n  on: 0.3\n  off: 0.3": "f:3: vad.off: vad.off must be less than vad.on; got 0.3, 0.3; default 0.35, 0.5",
    "endpoint: {too_long_ms: 30001}": "f:1: endpoint.too_long_ms: must be a number from 1000 to 30000 (milliseconds); got 30001; default 15000",
    "endpoint:\n  silence_ms: 2000": "f:2: endpoint.silence_ms: endpoint.silence_ms must be at most endpoint.silence_open_ms; got 2000, 1200; "
    "default 800, 1200",
    "capture: {stall_ms: 200, block_ms: 150}": "f:1: capture.stall_ms: capture.stall_ms must be at least twice capture.block_ms; got 200, 150; "
    "default 1000, 40",
    "capture: {reopen_ms: 20000}": "f:1: capture.reopen_ms: capture.reopen_max_ms must be at least capture.reopen_ms; got 1500, 20000; default 1500, 500",
    "placement: {ears: 2}": "f:1: placement.ears: must be a list of whole numbers from 0 to 1023, each once; got 2; default []",
    "placement: {ears: [a]}": "f:1: placement.ears: must be a list of whole numbers from 0 to 1023, each once; got [a]; default []",
    "placement: {ears: [1, 1]}": "f:1: placement.ears: must be a list of whole numbers from 0 to 1023, each once; got [1, 1]; default []",
    "vad: {on: *x}": "f:1: must spell its values out; got the alias *x",
    "vad: &x {on: 0.5}": "f:1: must spell its values out; got the anchor &x",
    "vad: !!python/object/apply:os.system [ls]": "f:1: must not use tags; got tag:yaml.org,2002:python/object/apply:os.system",
    "<<: {vad: {}}": "f:1: <<: no such section; known here: bus, log, models, lanes, capture, gate, wake, playback, vad, transducer, endpoint, second_pass, placement",
    "vad: {}\n---\nvad: {}": "f:2: must be one document; got a second one",
    "vad:\n\ton: 1": "f:2: must be YAML; got a tab; YAML is indented with spaces",
    "vad: {on: 1": "f:1: must be YAML; got expected ',' or '}', but got '<stream end>'",
    "vad: {}\nbus: \x00": "f:2: must be text without control characters; got U+0000",
    "[" * 5000: "f:1: must not be nested deeper than 6 levels",
    "? [a]\n: b": "f:1: must have names for keys; got [a]",
    "bus: {address: 'a\\b'}": 'f:1: bus.address: must be "" or a D-Bus address such as unix:path=/run/x; got "a\\\\b"; default ""',
}


@pytest.mark.parametrize("text", ONE, ids=lambda text: re.sub(r"\W+", " ", text)[:30])
def test_one_mistake_is_one_exact_line(text: str) -> None:
    """CASES S11."""
    assert mistakes(text) == [ONE[text]]


def test_all_mistakes_at_once_sorted_by_line() -> None:
    text = "wake:\n  refractory_ms: x\nlog: {text: 3, levl: info}\nvad:\n  on: 0.2\n  on: 0.3\nbus: {kind: no}\n"
    assert [line.split(": ")[0:2] for line in mistakes(text)] == [
        ["f:2", "wake.refractory_ms"],
        ["f:3", "log.text"],
        ["f:3", "log.levl"],
        ["f:6", "vad.on"],
        ["f:7", "bus.kind"],
    ]


def test_a_rule_does_not_complain_of_a_default_that_stands_in() -> None:
    assert mistakes("vad:\n  on: x\n  off: 0.9") == ["f:2: vad.on: must be a number from 0.02 to 1; got x; default 0.5"]


def test_hundreds_of_mistakes_are_counted() -> None:
    lines = mistakes("\n".join(f"k{n}: 1" for n in range(150)))
    assert len(lines) == 101
    assert lines[-1] == "f: 50 more mistakes"


def test_an_alias_bomb_ends_at_once() -> None:
    bomb = "a: &a [x, x]\n" + "\n".join(f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]" for n in range(20))
    assert any("alias" in line for line in mistakes(bomb))


# ── what is written is what is read ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["no", "on", "null", "1", "010", "1e3", "yes", "true"])
def test_a_name_is_the_text_that_is_written(name: str) -> None:
    assert parse(f"lanes: [{{name: {name}}}]", "f").lanes == (LaneSettings(name=name),)


@pytest.mark.parametrize(("text", "value"), [("on", True), ("yes", True), ("True", True), ("off", False), ("no", False), ("FALSE", False)])
def test_a_truth_value_takes_yamls_words(text: str, value: Any) -> None:
    assert parse(f"log: {{text: {text}}}", "f").log.text is value


@pytest.mark.parametrize(("text", "value"), [("-60", -60.0), ("-6.05e1", -60.5), ("-60.", -60.0), ("-4E1", -40.0)])
def test_a_number_is_decimal(text: str, value: Any) -> None:
    assert parse(f"gate: {{floor_dbfs: {text}}}", "f").gate.floor_dbfs == value


def test_what_is_left_out_keeps_its_default() -> None:
    read = parse(
        "wake:\n  phrases:\n    - phrase: hey-jarvis\n      threshold: 0.7\n    - phrase: alexa\nlanes:\n  - name: a\n  - name: b\n    channel: 1\n",
        "f",
    )
    assert read.wake.phrases == (PhraseSettings("hey-jarvis", threshold=0.7), PhraseSettings("alexa"))
    assert read.lanes == (LaneSettings("a"), LaneSettings("b", channel="1"))
    assert read.wake.refractory_ms == 1500


def test_a_file_that_exists_may_be_a_source(tmp_path: Path) -> None:
    sound = tmp_path / "a b.wav"
    sound.touch()
    source = f"file:{sound}"
    assert parse(f"lanes: [{{source: '{source}'}}]\nmodels: {{path: {tmp_path}}}", "f").lanes[0].source == source


# ── boards ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

K3 = {
    "placement: {ears: [8]}": "f:1: placement.ears: must name cores 0-7 on the k3; 8-15 are AI cores, reached through second_pass_ai_cores; "
    "8 cannot be; got [8]; default []",
    "placement: {second_pass_provider: spacemit}\nsecond_pass:\n  threads: 10": "f:3: second_pass.threads: must be at most 8, the threads the k3's "
    "AI cores bear; got 10; default 1",
    "placement:\n  second_pass_provider: spacemit\n  second_pass_ai_cores: [8, 9]": "f:3: placement.second_pass_ai_cores: second_pass_ai_cores must have "
    "as many cores as second_pass.threads; got [8, 9], 1; default [], 1",
    "placement:\n  second_pass_provider: spacemit\n  second_pass_ai_cores: [7]": "f:3: placement.second_pass_ai_cores: must name AI cores, 8-15 on the k3; "
    "got [7]; default []",
    "placement:\n  second_pass_ai_cores: [8]": "f:2: placement.second_pass_ai_cores: must be [] where second_pass_provider is cpu; "
    'got [8], "cpu"; default [], "cpu"',
}


@pytest.mark.parametrize("text", K3)
def test_the_k3s_rules(text: str) -> None:
    """CASES C12."""
    assert mistakes(text, "k3") == [K3[text]]


def test_the_file_may_name_its_board() -> None:
    assert mistakes("placement: {board: k3, ears: [9]}")[0].startswith("f:1: placement.ears: must name cores 0-7 on the k3")
    assert mistakes("placement: {board: generic, second_pass_provider: spacemit}") == [
        'f:1: placement.second_pass_provider: must be cpu: the generic board has no AI cores; got "spacemit", "generic"; default "cpu", "auto"'
    ]


def test_a_core_that_this_machine_has_not() -> None:
    (line,) = mistakes("placement: {ears: [1023]}", "generic")
    assert line == f"f:1: placement.ears: must name cores {boards.spell(boards.AT_START)} here; 1023 cannot be; got [1023]; default []"


# ── files ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        settingsfile.read(path)
    (line,) = caught.value.lines
    assert line == str(caught.value)
    return line.removeprefix(str(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "voiced.yaml"
    assert refused(path) == ": cannot be read: No such file or directory; name a settings file that this user can read"
    assert refused(tmp_path) == ": must be a file; got a folder or a device; name a settings file"
    for nameless in (Path(), Path("/")):
        assert refused(nameless) == ": must be a file; got a folder or a device; name a settings file"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == ": must be a file; got a folder or a device; name a settings file"
    path.write_bytes(b"vad:\n  on: 0.5 # \xff\n")
    assert refused(path) == ":2: must be UTF-8 text; got the byte 0xff"
    path.write_bytes(b"#" * (settingsfile.SIZE_LIMIT + 1))
    assert refused(path) == ": must be at most 256 kB; is this a settings file?"
    path.write_text("vad: {on: 7}")
    assert refused(path) == ":1: vad.on: must be a number from 0.02 to 1; got 7; default 0.5"
    path.write_bytes("\ufeffvad: {on: 0.7}".encode())
    assert settingsfile.read(path).vad.on == 0.7
    assert settingsfile.read(None) == settings.defaults()


def test_the_file_is_the_named_one_the_users_or_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(settingsfile, "SYSTEM_FILE", tmp_path / "etc.yaml")
    assert settingsfile.find_config() is None
    (tmp_path / "etc.yaml").touch()
    assert settingsfile.find_config() == tmp_path / "etc.yaml"
    (tmp_path / "voiced").mkdir()
    (tmp_path / "voiced/voiced.yaml").touch()
    assert settingsfile.find_config() == tmp_path / "voiced/voiced.yaml"
    assert settingsfile.find_config(Path("/none")) == Path("/none")


def test_a_place_that_cannot_be_looked_at_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", f"/{300 * 'x'}")
    with pytest.raises(ConfigError, match=r"voiced.yaml: cannot be looked for: File name too long; name a settings file with --config"):
        settingsfile.find_config()
    monkeypatch.setattr(settingsfile, "SYSTEM_FILE", tmp_path / "etc.yaml")
    monkeypatch.setenv("XDG_CONFIG_HOME", "x")  # relative: the specification has it ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".config/voiced").mkdir(parents=True)
    (tmp_path / ".config/voiced/voiced.yaml").touch()
    assert settingsfile.find_config() == tmp_path / ".config/voiced/voiced.yaml"


@pytest.mark.parametrize("knob", ["vad: {min_silence_ms: 200}", "vad: {pad_ms: 100}"])
def test_a_knob_that_does_nothing_is_no_knob(knob: str) -> None:
    assert "is of an older version" in mistakes(knob)[0]


def test_the_file_says_how_a_change_takes_effect() -> None:
    text = settings.render_yaml()
    assert "`voicectl reload` applies the file" in text
    assert "next start" in text


# ── drop-ins ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def beside(path: Path, **texts: str) -> None:
    """Drop-ins of a file, by their names without the ending; _ stands before a number."""
    folder = path.with_name(f"{path.name}.d")
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name.removeprefix('_')}.yaml").write_text(text)


def test_drop_ins_have_the_last_word_in_the_order_of_their_names(tmp_path: Path) -> None:
    path = tmp_path / "voiced.yaml"
    path.write_text("vad: {on: 0.6, off: 0.2}\nlanes: [{name: one}, {name: two}]\nlog: {text: true}\n")
    beside(path, _20_b="vad: {on: 0.8}\nlog:\n", _10_a="vad:\n  on: 0.7\n  min_speech_ms: 50\nlanes:\n  - name: three\n")
    (tmp_path / "voiced.yaml.d/30.txt").write_text("nonsense")
    (tmp_path / "voiced.yaml.d/.30.yaml").write_text("nonsense")
    found = settingsfile.read(path)
    assert (found.vad.on, found.vad.off, found.vad.min_speech_ms) == (0.8, 0.2, 50)
    assert [lane.name for lane in found.lanes] == ["three"], "a list is one value"
    assert found.log.text, "a section of which every line is commented out says nothing"
    path.unlink()  # drop-ins alone
    assert (settingsfile.read(path).vad.on, settingsfile.read(path).vad.off) == (0.8, settings.defaults().vad.off)


def test_mistakes_of_drop_ins_have_their_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "voiced.yaml"
    path.write_text("log:\n  text: perhaps\ncapture: {block_ms: 100}\n")
    beside(path, _20="log: {txt: 1}\n\n\nlog: {}\n", _30="capture:\n\n  stall_ms: 200\n  block_ms: 150\n", _40="vad:\n\tx\n")
    with pytest.raises(ConfigError) as caught:
        settingsfile.read(path)
    assert [" ".join(line.split()[:2]) for line in caught.value.lines] == [
        f"{path}:2: log.text:",
        f"{path}.d/20.yaml:1: log.txt:",
        f"{path}.d/20.yaml:4: log:",
        f"{path}.d/30.yaml:3: capture.stall_ms:",
        f"{path}.d/40.yaml:2: must",
    ]


def test_what_two_files_make_together_is_told_by_the_line_that_holds(tmp_path: Path) -> None:
    path = tmp_path / "voiced.yaml"
    path.write_text("vad:\n  on: 0.7\n  off: 0.6\n")
    beside(path, low="# ours\nvad:\n  on: 0.4\n", lower="vad: {off: 0.5}\n")
    with pytest.raises(ConfigError) as caught:
        settingsfile.read(path)
    (line,) = caught.value.lines
    assert line.startswith(f"{path}.d/lower.yaml:1: vad.off: vad.off must be less than vad.on; got 0.5, 0.4"), line


def test_too_many_drop_ins_and_a_folder_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "voiced.yaml"
    path.touch()
    (tmp_path / "voiced.yaml.d").touch()
    assert settingsfile.read(path) == settings.defaults(), "a file of that name holds no drop-ins"
    (tmp_path / "voiced.yaml.d").unlink()
    beside(path, **{f"_{number}": "" for number in range(settingsfile.DROP_INS_LIMIT + 1)})
    with pytest.raises(ConfigError, match=r"voiced.yaml.d: must hold at most 64 files; got 65"):
        settingsfile.read(path)


def test_the_systems_drop_ins_alone_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(settingsfile, "SYSTEM_FILE", tmp_path / "etc.yaml")
    beside(tmp_path / "etc.yaml", local="log: {text: true}\n")
    assert settingsfile.find_config() == tmp_path / "etc.yaml"
    assert settingsfile.read(settingsfile.find_config()).log.text
