# Sourced by tools/run and tools/test: the virtual environment .venv at the checkout's top, with voiced in it in development form.
# Nothing is done that has been done: a stamp in .venv says for which setup.cfg and which versions. POSIX sh.

# $1: its folder. $2: the file of exact versions.
use_environment() {
    venv=$1 versions=$2 stamp=$1/voiced-stamp
}
use_environment "$top/.venv" "$top/tools/constraints.txt"

say() { printf '%s\n' "$*" >&2; }
fail() { say "$0: $*"; exit 1; }

# The first Python that is new enough.
find_python() {
    for python in python3 python3.11 python3.12 python3.13 python3.14 python3.15; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then return; fi
    done
    fail "Python 3.11 or newer is needed and none is found; on Debian or Ubuntu: apt-get install python3 python3-venv"
}

# Prints the Debian names of what is not there. $@: names.
missing_packages() {
    for package in "$@"; do
        case $package in
            python3-venv) "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "$package" ;;
            libportaudio2) "$python" -c 'import ctypes; ctypes.CDLL("libportaudio.so.2")' 2>/dev/null || echo "$package" ;;
            dbus) command -v dbus-daemon >/dev/null || echo "$package" ;;
        esac
    done
}

# Installs missing system packages where we may, and says what to run where we may not. $@: Debian names.
need_packages() {
    missing=$(missing_packages "$@" | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing system packages: $missing"
        # shellcheck disable=SC2086  # several words are meant
        { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing ||
            { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; }; } </dev/null >&2 ||
            fail "apt-get could not install: $missing"
        missing=$(missing_packages "$@" | tr '\n' ' ')
        [ -z "$missing" ] || fail "installed, but still not found: $missing"
    elif command -v apt-get >/dev/null; then
        fail "system packages are missing: $missing; run: sudo apt-get install $missing"
    else
        fail "system libraries are missing (Debian's names: $missing); install them with this system's package manager"
    fi
}

# What the stamp must say: the checkout's place (scripts hold its path), its Python, its requirements. $1: run or test.
fingerprint() {
    printf '%s\n%s\n' "$1" "$top"
    cat "$top/setup.cfg" "$versions" "$top/tools/environment.sh" | sha256sum
}

ready() {
    [ -x "$venv/bin/python" ] && [ -r "$stamp" ] || return 1
    now=$(cat "$stamp")
    # The tests' environment has all that a run needs.
    [ "$now" = "$(fingerprint test)" ] || { [ "$1" = run ] && [ "$now" = "$(fingerprint run)" ]; }
}

# Leaves $venv ready. $1: run or test (with what the tests need).
set_up() {
    if ready "$1"; then return; fi
    find_python
    need_packages python3-venv libportaudio2 dbus
    { mkdir -p "$venv" && [ -w "$venv" ]; } 2>/dev/null || fail "cannot write to $venv; is it another user's checkout?"
    # One set-up at a time; the lock goes when this shell does.
    exec 9>"$venv/lock"
    if command -v flock >/dev/null; then flock 9; fi
    if ! ready "$1"; then install_voiced "$1"; fi
    exec 9>&-
}

pip() { (cd "$top" && exec "$venv/bin/python" -m pip "$@" --disable-pip-version-check --no-input --quiet </dev/null); }

install_voiced() {
    rm -f "$stamp"
    extras=
    if [ "$1" = test ]; then extras='[dev]'; fi
    constraints="--constraint=${versions#"$top"/}"  # below $top, where pip runs: a path of ours may have spaces
    options=
    case $(uname -m) in
        x86_64 | aarch64) ;;
        # No wheels of NumPy, onnxruntime and sherpa-onnx there: they come from the distribution or the board's maker.
        *) constraints= options=--system-site-packages ;;
    esac
    say "setting up $venv (once)"
    # A moved or half-made environment is made anew; its cost is a download that pip has cached.
    clear=
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 || ! grep -qF "$venv" "$venv/bin/activate"; then clear=--clear; fi
    # --clear would delete the lock beside it: only what venv makes is removed.
    if [ -n "$clear" ]; then rm -rf "$venv/bin" "$venv/lib" "$venv/lib64" "$venv/include" "$venv/pyvenv.cfg"; fi
    # shellcheck disable=SC2086  # none or one word is meant
    { [ -z "$clear" ] || "$python" -m venv $options "$venv" >&2; } || fail "cannot make the virtual environment $venv"
    # shellcheck disable=SC2086
    pip install $constraints pip 'setuptools >=64' >&2 || fail "pip failed (see above); where it could not reach its index, check the network and pip config list"
    # pip takes no project that has a setup.cfg alone, so its back end is asked for the development wheel directly (PEP 660).
    # What it leaves behind goes to the environment, not to the checkout.
    build=$venv/build
    rm -rf "$build"
    mkdir -p "$build"
    printf '[egg_info]\negg_base = %s\n' "$build" >"$build/extra.cfg"
    wheel=$(cd "$top" && DIST_EXTRA_CONFIG="$build/extra.cfg" "$venv/bin/python" -c '
import contextlib, sys
from setuptools import build_meta
with contextlib.redirect_stdout(sys.stderr):
    name = build_meta.build_editable(sys.argv[1])
print(name)' "$build" 2>"$build/log") || { cat "$build/log" >&2; fail "the development wheel could not be built"; }
    pip uninstall --yes voiced >&2 2>/dev/null || true
    # shellcheck disable=SC2086
    pip install $constraints "voiced$extras @ file://$(printf %s "$build/$wheel" | sed 's/ /%20/g')" >&2 ||
        fail "pip could not install what voiced needs (see above)"
    rm -rf "$build"
    fingerprint "$1" >"$stamp"
}

# Adds the extra `train`, where all of it comes as wheels and without a graphics card's libraries, which are gigabytes. Where not, that is
# said, and what wants PyTorch skips. $venv is set up.
add_training() {
    if "$venv/bin/python" -c 'import jiwer, kaldi_native_fbank, matplotlib, onnx, sentencepiece, torch' 2>/dev/null; then return; fi
    wheels="--only-binary=:all: --constraint=${versions#"$top"/}"
    # shellcheck disable=SC2086  # two words are meant
    if ! pip install $wheels --dry-run --report "$venv/plan.json" 'voiced[train]' >/dev/null 2>&1; then
        say "without the extra train: its PyTorch, of the version that setup.cfg names, has no wheel for this machine here; its tests skip"
    elif grep -q '"name": *"nvidia' "$venv/plan.json"; then
        say "without the extra train: PyTorch would bring a graphics card's libraries from here; its tests skip"
    else
        say "installing the extra train (once)"
        # shellcheck disable=SC2086
        pip install $wheels 'voiced[train]' >&2 || fail "pip could not install the extra train (see above)"
    fi
}

# Fetches the default models that are not there yet: seconds the first time, then nothing.
fetch_models() {
    "$venv/bin/python" -P -m voiced.models fetch
}
