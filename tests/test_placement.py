"""Threads on cores, as the kernel says; and the K3's rules, which hold on any machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from voiced import boards, placement
from voiced.desk import PlacementRow
from voiced.errors import PlacementError

CORES = boards.AT_START
FAR = 1023  # a core that no board here has


def in_thread(work: Any) -> Any:
    """The answer of `work` from a thread of its own: the test's own thread keeps its cores."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.mark.skipif(len(CORES) < 2, reason="this machine has one core: two threads cannot be placed apart")
def test_two_roles_are_placed_and_read_back() -> None:
    ready = threading.Barrier(3, timeout=120)
    done = threading.Event()
    rows: dict[str, PlacementRow] = {}

    def role(name: str, core: int) -> None:
        rows[name] = placement.pin(name, [core], process="lane main")
        ready.wait()
        done.wait(120)

    threads = [threading.Thread(target=role, args=pair) for pair in (("ears", CORES[0]), ("transducer", CORES[1]))]
    before = os.sched_getaffinity(0)
    for thread in threads:
        thread.start()
    ready.wait()
    seen = {name: placement.read_back(row.tid) for name, row in rows.items()}
    done.set()
    for thread in threads:
        thread.join()
    assert seen == {"ears": (CORES[0],), "transducer": (CORES[1],)}
    assert {row.wanted == row.actual for row in rows.values()} == {True}
    assert rows["ears"].tid != rows["transducer"].tid
    assert {row.pid for row in rows.values()} == {os.getpid()}
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(len(CORES) < 2, reason="this machine has one core")
def test_workers_of_a_model_session_inherit_the_mask() -> None:
    """A real session: the threads that onnxruntime starts are where the thread that made it is."""
    script = f"""
import os, pathlib, onnxruntime as ort
from voiced import placement
placement.pin("transducer", [{CORES[1]}])
before = set(os.listdir("/proc/self/task"))
options = ort.SessionOptions()
options.intra_op_num_threads = 2
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = ort.InferenceSession("{Path(__file__).parents[1] / "models/wake/jarvis.onnx"}", options, ["CPUExecutionProvider"])
workers = set(os.listdir("/proc/self/task")) - before
print(sorted({{placement.read_back(int(tid)) for tid in workers}}))
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False, env=_env())
    assert (answer.stderr, answer.stdout) == ("", f"[({CORES[1]},)]\n")


def _env() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(placement.__file__).parents[1])}


def test_no_cores_means_all_that_the_daemon_was_started_with() -> None:
    def work() -> Any:
        os.sched_setaffinity(0, CORES[:1])  # as a child is that a pinned thread has started
        return placement.pin("ears", [])

    row = in_thread(work)
    assert (row.wanted, row.actual) == ((), CORES)


def test_a_child_of_a_pinned_process_knows_the_cores_of_the_start() -> None:
    environ = _env() | placement.environment()
    script = "from voiced import placement; print(placement.pin('ears', []).actual)"
    argv = ["taskset", "-c", str(CORES[0]), sys.executable, "-c", script]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environ, check=True)
    assert answer.stdout == f"{CORES}\n"


@pytest.mark.parametrize("cores", [[FAR], [CORES[0], FAR], [10**9], [2**70], [-1]])
def test_an_absent_core_is_refused_by_name_and_the_thread_stays(cores: list[int]) -> None:
    def work() -> Any:
        before = os.sched_getaffinity(0)
        with pytest.raises(PlacementError) as caught:
            placement.pin("ears", cores)
        assert os.sched_getaffinity(0) == before
        return caught.value

    error = in_thread(work)
    assert error.exit_code == 78
    assert str(error).startswith("placement.ears: must name cores ")
    assert "here; got " in str(error)


def test_a_refusal_on_the_k3_says_what_the_board_allows() -> None:
    with pytest.raises(PlacementError) as caught:
        in_thread(lambda: placement.pin("ears", [FAR], on=boards.K3))
    assert "cores 0-7 on the k3; 8-15 are AI cores, reached through second_pass_ai_cores" in str(caught.value)


def test_nice_is_of_the_thread_alone_and_added_to_the_start() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)

    def work() -> Any:
        row = placement.pin("second_pass", [], nice=7)
        return os.getpriority(os.PRIO_PROCESS, row.tid)

    assert in_thread(work) == min(own + 7, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


def test_a_thread_that_is_no_more_is_named() -> None:
    tid = in_thread(threading.get_native_id)
    with pytest.raises(PlacementError, match=f"no thread {2**22 + 1}"):
        placement.read_back(2**22 + 1)  # above the highest id that Linux gives
    assert tid > 0


# ── boards ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_k3_is_known_by_its_cores_or_its_control_file(tmp_path: Path) -> None:
    cpuinfo, control = tmp_path / "cpuinfo", tmp_path / "set_ai_thread"
    cpuinfo.write_text("processor : 0\nmarchid : 0x8000000000000007\n")
    assert boards.detect(cpuinfo, control) == "generic"
    assert boards.board("auto", cpuinfo, control).cores == CORES
    cpuinfo.write_text("processor : 0\nmarchid\t\t: 0x8000000058000002\n")
    assert boards.board("auto", cpuinfo, control) is boards.K3
    cpuinfo.unlink()
    assert boards.detect(cpuinfo, control) == "generic"
    control.touch()
    assert boards.detect(cpuinfo, control) == "k3"
    assert boards.board("generic", cpuinfo, control).name == "generic"


@pytest.mark.parametrize(("cores", "words"), [((), ""), ((3,), "3"), ((0, 1, 2, 6), "0-2, 6"), ((15, 8, 9), "8-9, 15")])
def test_cores_in_words(cores: list[int], words: Any) -> None:
    assert boards.spell(cores) == words


# ── AI cores ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_provider_options_are_what_the_vendor_names() -> None:
    assert placement.provider_options("spacemit", threads=2, ai_cores=(8, 9)) == {
        "SPACEMIT_EP_INTRA_THREAD_NUM": "2",
        "SPACEMIT_EP_INTRA_THREAD_AFFINITY": "8;9",
    }
    assert placement.provider_options("spacemit", threads=4) == {"SPACEMIT_EP_INTRA_THREAD_NUM": "4"}
    assert placement.provider_options("cpu", threads=4) == {}
    with pytest.raises(PlacementError, match="one core a thread; got 2 for 3 threads"):
        placement.provider_options("spacemit", threads=3, ai_cores=(8, 9))


def test_the_launcher_moves_itself_before_it_becomes_the_program(tmp_path: Path) -> None:
    control = tmp_path / "set_ai_thread"
    control.touch()
    argv = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read(), sys.argv[2:])", str(control), "a b", "$HOME", "'"]
    launched = subprocess.run(placement.ai_launcher(argv, control), capture_output=True, text=True, timeout=60, check=True)
    assert launched.stdout == "0\n [" + ", ".join(map(repr, ["a b", "$HOME", "'"])) + "]\n"


def test_the_launcher_keeps_the_process_id(tmp_path: Path) -> None:
    control = tmp_path / "set_ai_thread"
    control.touch()
    argv = placement.ai_launcher([sys.executable, "-c", "import os; print(os.getpid())"], control)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert int(child.communicate(timeout=60)[0]) == child.pid


@pytest.mark.parametrize("kind", ["absent", "refusing"])
def test_the_launcher_says_what_the_board_lacks(tmp_path: Path, kind: str) -> None:
    control = tmp_path / "set_ai_thread"
    if kind == "refusing":
        control.mkdir()  # a folder cannot be written to, not even by root
    argv = placement.ai_launcher(["echo", "ran"], control)
    launched = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (launched.returncode, launched.stdout) == (78, "")
    assert launched.stderr.startswith(f"voiced: {control}: ")
    assert launched.stderr.count("\n") == 1
    assert ("no AI cores" if kind == "absent" else "refuses") in launched.stderr
    assert control.exists() == (kind == "refusing")
