#!/bin/sh
# The project's environments. `make` calls this; it knows when that is due.
#
#   .ci/environment.sh sync      make .venv hold exactly the pinned packages, and the project
#   .ci/environment.sh peers     make .venv-peers hold what `make bench` measures against
#   .ci/environment.sh uv ...    run uv, fetched first if this machine has none
#
# With uv on PATH that uv works. Without, pip fetches the pinned one into .uv, outside .venv, where
# a sync would remove it. Where that fails too, pip does all the work, more slowly.
# PYTHON=... names the interpreter; else the first suitable one on PATH is taken.
set -eu
cd "$(dirname "$0")/.."

# A person's own settings for other projects must not lead uv or pip elsewhere.
unset VIRTUAL_ENV CONDA_PREFIX PYTHONHOME PYTHONPATH UV_PYTHON UV_SYSTEM_PYTHON
unset PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
export UV_PROJECT_ENVIRONMENT="$PWD/.venv"
# Which environment, of which packages; `peers` names others.
venv=.venv
pins=requirements-dev.txt
# Uncompiled, Dagster takes twice as long to start, each time.
export UV_COMPILE_BYTECODE=1

suitable='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "set-up: $*"
    exit 2
}

is_suitable() { "$1" -c "$suitable" 2>/dev/null; }

# Prints a suitable interpreter, or nothing.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        if is_suitable "$PYTHON"; then command -v "$PYTHON"; fi
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if is_suitable "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
}

no_python() {
    found=$("${PYTHON:-python3}" --version 2>&1) || found="none that runs"
    fail "${PYTHON:-python3 on PATH}: expected Python 3.11 to 3.14, found $found." \
        "Install one, or name it: make PYTHON=python3.12"
}

# Prints a uv that runs, or nothing.
find_uv() {
    for candidate in uv .uv/uv; do
        if "$candidate" --version >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

# pip_into PYTHON FOLDER: the pinned uv, into a folder of its own.
pip_into() {
    "$1" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        --target "$2" --requirement requirements-uv.txt
}

# Puts the pinned uv at .uv/uv. The rename is atomic: two set-ups at once do no harm.
fetch_uv() {
    say "set-up: no uv on PATH, fetching the pinned one into .uv"
    mkdir -p .uv
    scratch=$(mktemp -d .uv/fetch.XXXXXX)
    # An interpreter without pip (Debian's, alone) gets one in a throw-away environment.
    if pip_into "$1" "$scratch/uv" 2>"$scratch/why" ||
        { "$1" -m venv "$scratch/venv" >>"$scratch/why" 2>&1 &&
            pip_into "$scratch/venv/bin/python" "$scratch/uv" 2>>"$scratch/why"; }; then
        mv -f "$scratch/uv/bin/uv" .uv/uv
        rm -rf "$scratch"
        .uv/uv --version >/dev/null 2>&1
    else
        cat "$scratch/why" >&2
        rm -rf "$scratch"
        return 1
    fi
}

# True if the environment was finished here (scripts hold its path) and its interpreter still runs.
is_ours() {
    [ "$(cat "$venv/.synced" 2>/dev/null)" = "$(pwd -P)" ] && is_suitable "$venv/bin/python"
}

sync_by_uv() {
    is_ours || { rm -rf "$venv" && "$1" venv --quiet --python "$2" "$venv"; } || return
    "$1" pip sync --quiet --python "$venv/bin/python" --require-hashes "$pins" || return
    [ "$venv" = .venv ] || return 0 # peers know nothing of the project
    "$1" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
}

sync_by_pip() {
    say "set-up: going on without uv; pip needs a minute or more"
    is_ours || rm -rf "$venv"
    "$1" -m venv "$venv" ||
        fail "$venv: expected a working venv module, found none (Debian: apt-get install" \
            "python3-venv; or install uv)"
    pip="$venv/bin/python -m pip --quiet --disable-pip-version-check"
    $pip install --no-deps --require-hashes --requirement "$pins" || return
    [ "$venv" = .venv ] || return 0
    PATH="$PWD/.venv/bin:$PATH" $pip install --no-deps --no-build-isolation --editable .
}

# Under a lock that dies with its holder, since `make demo` and `make test` may start together.
sync_locked() {
    mkdir -p .uv
    exec "$2" -c '
import fcntl, os, sys
lock = os.open(".uv/lock", os.O_CREAT | os.O_RDWR, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock, True)
os.execv("/bin/sh", ["sh", *sys.argv[1:]])
' "$0" sync-now "$1" "$2"
}

is_current() {
    is_ours && for input in pyproject.toml "$pins"; do
        [ "$venv/.synced" -nt "$input" ] || return 1
    done
}

sync_now() {
    is_current && return # by the set-up that held the lock before us
    uv=$(find_uv)
    if [ -z "$uv" ] && fetch_uv "$1"; then uv=.uv/uv; fi
    say "set-up: installing the pinned packages into $venv (half a minute the first time)"
    if [ -n "$uv" ]; then
        sync_by_uv "$uv" "$1" || fail "$venv: uv could not make it; its message is above"
    else
        sync_by_pip "$1" || fail "$venv: pip could not make it; its message is above"
    fi
    pwd -P >"$venv/.synced"
}

choose() {
    [ "$1" = peers ] || return 0
    venv=.venv-peers
    pins=requirements-peers.txt
}

case "${1:-}" in
sync | peers)
    choose "$1"
    python=$(find_python)
    if [ -n "$python" ]; then
        sync_locked "$1" "$python"
    elif [ -z "${PYTHON:-}" ] && [ -n "$(find_uv)" ]; then
        sync_now '>=3.11,<3.15' # uv knows interpreters that are not on PATH
    else
        no_python
    fi
    ;;
sync-now)
    choose "$2"
    sync_now "$3"
    ;;
uv)
    shift
    uv=$(find_uv)
    if [ -z "$uv" ]; then
        python=$(find_python)
        [ -n "$python" ] || no_python
        fetch_uv "$python" || fail "uv: expected to find or fetch one, found neither"
        uv=.uv/uv
    fi
    exec "$uv" "$@"
    ;;
*)
    fail ".ci/environment.sh: expected sync, peers or uv, found '${1:-}'"
    ;;
esac
