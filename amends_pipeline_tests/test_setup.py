"""The set-up: what is pinned, what is switched off and why, and what `make` does."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUN_TIME = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
DEVELOPMENT = [Requirement(line) for line in PROJECT["dependency-groups"]["dev"]]
BOOTSTRAP = [Requirement(line) for line in PROJECT["dependency-groups"]["bootstrap"]]
PEERS = [Requirement(line) for line in PROJECT["dependency-groups"]["peers"]]
EXPORTS = {
    "requirements.txt": RUN_TIME,
    "requirements-dev.txt": RUN_TIME + DEVELOPMENT,
    "requirements-uv.txt": BOOTSTRAP,
    "requirements-peers.txt": PEERS,
}
SET_UP = ["Makefile", "pyproject.toml", ".ci/run", ".ci/environment.sh", *EXPORTS]
PYTHON_FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("amends_pipeline", "amends_pipeline_tests")
    for path in (ROOT / package).rglob("*.py")
)


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pins_of(name):
    """The pinned requirements of an export, each as (requirement, its number of hashes)."""
    pins = []
    for entry in re.split(r"(?m)^(?=\S)", text_of(name).replace("\\\n", "")):
        if entry and not entry.startswith("#"):
            requirement = re.split(r"--hash|#", entry)[0]
            pins.append((Requirement(requirement.strip()), entry.count("--hash=sha256:")))
    return pins


def versions_of(name):
    """Every version an export pins of a package; more than one where markers part them."""
    versions = {}
    for pin, _ in pins_of(name):
        (specifier,) = pin.specifier
        versions.setdefault(canonicalize_name(pin.name), set()).add(specifier.version)
    return versions


# ---------------------------------------------------------------- pins


def test_dagster_packages_are_pinned_to_one_release():
    exact = {one.name: str(one.specifier) for one in RUN_TIME if one.name.startswith("dagster")}
    major, minor, patch = exact["dagster"].removeprefix("==").split(".")
    assert major == "1"
    assert exact == {
        "dagster": f"==1.{minor}.{patch}",
        "dagster-webserver": f"==1.{minor}.{patch}",
        "dagster-postgres": f"==0.{int(minor) + 16}.{patch}",  # libraries are numbered 16 ahead
    }


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_an_export_holds_dagster_of_one_release(name):
    versions = {key: found for key, found in versions_of(name).items() if "dagster" in key}
    library = versions.pop("dagster-postgres")
    assert len(versions) >= 4, "the core, its shared parts, pipes, GraphQL and the web server"
    assert set.union(*versions.values()) == versions["dagster"]
    (release,) = versions["dagster"]
    needs = [Requirement(line) for line in importlib.metadata.requires("dagster-postgres")]
    assert {importlib.metadata.version("dagster-postgres")} == library
    assert f"dagster=={release}" in map(str, needs)


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_names_no_address(name):
    found = re.findall(r"https?:|file:|git\+|\s@\s|^\s*-(?!-hash)\S+", text_of(name), re.MULTILINE)
    assert found == []


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_pins_every_package_to_a_version_and_its_hashes(name):
    pins = pins_of(name)
    assert pins
    for pin, hashes in pins:
        assert [one.operator for one in pin.specifier] == ["=="], pin
        assert hashes > 0, pin


@pytest.mark.parametrize(("name", "requirements"), EXPORTS.items())
def test_an_export_is_up_to_date_with_pyproject(name, requirements):
    versions = versions_of(name)
    for requirement in requirements:
        pinned = versions.get(canonicalize_name(requirement.name), set())
        assert pinned, f"{requirement} is not in {name}: run make lock"
        for version in pinned:
            assert requirement.specifier.contains(version), f"{requirement}: run make lock"


def test_the_run_time_export_is_the_development_export_without_the_tools():
    run_time, development = versions_of("requirements.txt"), versions_of("requirements-dev.txt")
    assert {key: development.get(key) for key in run_time} == run_time
    assert {"pytest", "ruff", "mypy", "hypothesis"} <= development.keys() - run_time.keys()


def test_this_environment_holds_what_is_pinned():
    for pin, _ in pins_of("requirements-dev.txt"):
        if pin.marker is None or pin.marker.evaluate():
            assert pin.specifier.contains(importlib.metadata.version(pin.name)), pin


# ---------------------------------------------------------------- reasons


def is_a_reason(comment):
    return len(re.findall(r"\w+", comment)) >= 2


def exceptions_in_pyproject():
    ruff = PROJECT["tool"]["ruff"]["lint"]
    yield from ruff["ignore"]
    for rules in ruff["per-file-ignores"].values():
        yield from rules
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        yield from contract.get("ignore_imports", [])
    yield from PROJECT["tool"]["pytest"]["filterwarnings"][1:]


@pytest.mark.parametrize("exception", sorted(set(exceptions_in_pyproject())))
def test_every_exception_in_pyproject_has_its_reason(exception):
    lines = text_of("pyproject.toml").splitlines()
    places = [number for number, line in enumerate(lines) if f'"{exception}"' in line]
    assert places
    for number in places:
        beside = lines[number].rpartition(f'"{exception}"')[2].lstrip(" ,")
        above = lines[number - 1].strip()
        reason = beside if beside.startswith("#") else above
        assert reason.startswith("#"), lines[number]
        assert is_a_reason(reason), lines[number]


def test_all_rules_are_selected_and_warnings_are_errors():
    assert PROJECT["tool"]["ruff"]["lint"]["select"] == ["ALL"]
    assert PROJECT["tool"]["mypy"]["strict"] is True
    assert PROJECT["tool"]["pytest"]["filterwarnings"][0] == "error"


CODES = r"[A-Z]+\d+(?:,\s*[A-Z]+\d+)*"
EXCEPTION_IN_CODE = re.compile(
    rf"#\s*(?:(?:ruff:\s*)?noqa:\s*{CODES}|type:\s*ignore\[[\w, -]+\]|pragma: no \w+)(?P<reason>.*)"
)
BARE_EXCEPTION = re.compile(r"#\s*(?:(?:ruff:\s*)?noqa(?!:)|type:\s*ignore(?!\[))")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("x = 1  # noqa: S608 - the name is ours", True),
        ("x = 1  # noqa: S608, E501  the name is ours", True),
        ("x = 1  # type: ignore[arg-type]  # its stub is wrong", True),
        ("x = 1  # noqa: S608", False),
        ("x = 1  # noqa: S608 - because", False),
        ("x = 1  # type: ignore[arg-type]", False),
        ("x = 1  # pragma: no cover", False),
        ("# ruff: noqa: N818 - named for what happened", True),
        ("# ruff: noqa: N818", False),
        ("# ruff: noqa", False),
        ("x = 1  # noqa", False),
        ("x = 1  # type: ignore", False),
    ],
)
def test_what_counts_as_a_reason_beside_an_exception(line, told):
    assert untold_exceptions(line) == ([] if told else [line])


def untold_exceptions(source):
    untold = [line for line in source.splitlines() if BARE_EXCEPTION.search(line)]
    for line in source.splitlines():
        found = EXCEPTION_IN_CODE.search(line)
        if found and not is_a_reason(found["reason"]):
            untold.append(line)
    return untold


@pytest.mark.parametrize("name", PYTHON_FILES)
def test_every_exception_in_the_code_has_its_reason(name):
    if not name.endswith("/test_setup.py"):  # it holds the examples above
        assert untold_exceptions(text_of(name)) == []


# ---------------------------------------------------------------- numbers of the house


@pytest.mark.parametrize("name", PYTHON_FILES)
def test_files_have_at_most_400_lines_and_functions_at_most_70(name):
    source = text_of(name)
    assert source.count("\n") <= 400
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(source))
        if isinstance(node, functions) and node.end_lineno - node.lineno + 1 > 70
    }
    assert long == {}


# ---------------------------------------------------------------- make


@pytest.mark.parametrize("name", SET_UP)
def test_the_set_up_names_no_place_of_one_machine(name):
    text = text_of(name).removeprefix("#!/usr/bin/env bash").removeprefix("#!/bin/sh")
    text = text.replace('"/bin/sh"', "").replace("/dev/null", "")  # POSIX has them everywhere
    places = r"(?<![\w.*)])/(?:home|root|Users|usr|opt|work|tmp|etc|var|bin|srv|mnt|dev)\b"
    assert re.findall(places, text) == []
    assert str(ROOT) not in text
    assert str(Path.home()) not in text or Path.home() == Path("/")


def make(*arguments, **environment):
    """Run make as a person would, not as a child of the make that runs this suite."""
    of_make = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MEASURED", "PYTEST_ARGS", "TEST_WORKERS"}
    inherited = {key: value for key, value in os.environ.items() if key not in of_make}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_make_check_runs_every_check_and_the_tests_of_make_test():
    def plan(goal):
        lines = [line.strip() for line in make("--dry-run", goal).splitlines()]
        return [line for line in lines if line.startswith((".venv/bin/", "env "))]

    (suite,) = plan("test")
    *before, measured = plan("check")
    assert before == [
        ".venv/bin/ruff format --check",
        ".venv/bin/ruff check",
        ".venv/bin/mypy",
        ".venv/bin/lint-imports",
        "env -u DAGSTER_HOME .venv/bin/dagster definitions validate -w workspace.yaml",
    ]
    assert measured.split() == [*suite.split(), "--cov"]


def test_make_help_lists_every_target():
    targets = re.search(r"^\.PHONY: (setup .*)$", text_of("Makefile"), re.MULTILINE)[1].split()
    assert [line.split()[1] for line in make("help").splitlines()] == targets


def test_the_door_for_continuous_integration_is_make_check():
    door = ROOT / ".ci/run"
    assert os.access(door, os.X_OK)
    assert text_of(".ci/run").splitlines()[-1] == "exec make check"


@pytest.mark.parametrize("version", ["3.9.2", "3.15.0"])
def test_an_unsuitable_python_is_refused_before_anything_is_made(tmp_path, version):
    (tmp_path / ".ci").mkdir()
    script = shutil.copy(ROOT / ".ci/environment.sh", tmp_path / ".ci")
    python = tmp_path / "python"
    # The version test of the script is run for real, against the version pretended here.
    numbers = version.replace(".", ", ")
    python.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --version ] && exec echo "Python {version}"\n'
        f'exec python3 -c "import sys; sys.version_info = ({numbers}); $2"\n'
    )
    python.chmod(0o755)
    ended = subprocess.run(
        ["sh", script, "sync"],
        env=os.environ | {"PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert f"{python}: expected Python 3.11 to 3.14, found Python {version}" in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ci", "python"]
