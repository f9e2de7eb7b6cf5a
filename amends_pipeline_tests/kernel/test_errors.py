from __future__ import annotations

import inspect
import pickle
import re

import pytest

from amends_pipeline.kernel import errors
from amends_pipeline.kernel.errors import (
    AmendsError,
    CloseOverflow,
    ConfigurationError,
    Fenced,
    InputError,
    OperationError,
    StrictJsonError,
)

KINDS = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, AmendsError)
]


def test_the_message_tells_where_what_was_expected_and_what_was_found():
    error = ConfigurationError("keys[3].partition", expected="an integer", found='"x"')
    assert str(error) == 'keys[3].partition: expected an integer, found "x"'
    assert (error.where, error.expected, error.found) == ("keys[3].partition", "an integer", '"x"')


def test_the_message_is_one_line_that_does_nothing_to_a_terminal():
    error = InputError("a\x1b[2J", expected="b\nc", found="d\u202e")
    assert str(error) == r"a\x1b[2J: expected b\nc, found d\u202e"


@pytest.mark.parametrize(
    ("kind", "status"), [(InputError, 2), (ConfigurationError, 2), (OperationError, 3), (Fenced, 3)]
)
def test_the_exit_status_goes_with_the_branch(kind, status):
    assert kind.exit_status == status


def test_an_overflow_names_the_record_the_key_and_the_day():
    error = CloseOverflow(1, 4711, ("DEMO\nPART", "DEPOT-A"), 20_454)
    assert str(error) == (
        "partition 1, offset 4711: expected closes that fit a signed 64-bit integer, "
        r'found one of item "DEMO\nPART" at location "DEPOT-A" on 2026-01-01 that does not fit'
    )
    assert (error.partition, error.offset) == (1, 4711)
    assert (error.stock_key, error.day) == (("DEMO\nPART", "DEPOT-A"), 20_454)


@pytest.mark.parametrize(
    "error",
    [
        Fenced("unit main|p0", expected="epoch 3", found="epoch 4"),
        CloseOverflow(1, 4711, ("DEMO-PART", "DEPOT-A"), 20_454),
    ],
)
def test_an_error_survives_the_way_from_another_process(error):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_the_drawing_shows_every_error_under_its_parent():
    drawn = re.findall(r"^( +)([A-Z]\w+) ", errors.__doc__ or "", re.MULTILINE)
    path: list[tuple[int, str]] = []
    parents = {}
    for indent, name in drawn:
        while path and path[-1][0] >= len(indent):
            path.pop()
        parents[name] = path[-1][1] if path else "Exception"
        path.append((len(indent), name))
    assert parents == {kind.__name__: kind.__base__.__name__ for kind in KINDS}


def test_strict_json_errors_are_input_errors():
    assert issubclass(StrictJsonError, InputError)
