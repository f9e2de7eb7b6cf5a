from __future__ import annotations

import json

import pytest

from amends_pipeline.inventory.config import (
    KeyConfig,
    StockKey,
    load_configuration,
    parse_configuration,
)
from amends_pipeline.kernel.errors import ConfigurationError, StrictJsonError

from .test_config import DEMO, DEMO_KEY, crc32

HEADER = "item,location,opening_balance,reorder_threshold,partition\n"


@pytest.fixture
def folder(tmp_path):
    """Write the files of a configuration and load it."""

    def load(csv: str | bytes | None, *, keys: object = None):
        if csv is not None:
            (tmp_path / "keys.csv").write_bytes(csv.encode() if isinstance(csv, str) else csv)
        document = {**DEMO, "keys": {"path": "keys.csv"} if keys is None else keys}
        (tmp_path / "config.json").write_text(json.dumps(document))
        return load_configuration(tmp_path / "config.json")

    return load


def test_a_file_with_its_keys_inline(folder):
    assert folder(None, keys=[DEMO_KEY]) == parse_configuration(DEMO)


@pytest.mark.parametrize(
    "csv",
    [
        HEADER + "DEMO-PART,DEPOT-A,100,60,0\n",
        HEADER + "DEMO-PART,DEPOT-A,100,60,0",
        HEADER.replace("\n", "\r\n") + '\r\n"DEMO-PART","DEPOT-A","100","60","0"\r\n\r\n',
    ],
)
def test_a_file_of_keys_beside_it_means_the_same(folder, csv):
    config = folder(csv)
    assert config == parse_configuration(DEMO)
    assert config.digest == parse_configuration(DEMO).digest


def test_a_file_of_keys_holds_any_names_and_both_ends_of_the_range(folder):
    config = folder(
        HEADER
        + '"a,""b""","two\r\nlines",-9223372036854775808,9223372036854775807,\n é ,😀,-0,0,1\n'
    )
    assert config.keys == (
        KeyConfig(StockKey(" é ", "😀"), 0, 0, 1),
        KeyConfig(
            StockKey('a,"b"', "two\r\nlines"),
            -(2**63),
            2**63 - 1,
            crc32(b'["a,\\"b\\"","two\\r\\nlines"]') % 2,
        ),
    )


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        (
            "",
            (
                '"keys.csv", line 1: expected the columns item, location, opening_balance, '
                'reorder_threshold, partition, found ""'
            ),
        ),
        ("item,location\n", 'found "item, location"'),
        ("\ufeff" + HEADER, r'found "\ufeffitem, location'),
        (HEADER, "keys: expected at least one key, found none"),
        (HEADER + "a,b,1,2\n", '"keys.csv", line 2, the row: expected 5 columns, found 4'),
        (HEADER + "a,b,1,2,0,0\n", "expected 5 columns, found 6"),
        (HEADER + "a,b,1,2,0\n,b,1,2,0\n", '"keys.csv", line 3, item: expected nonempty text'),
        (HEADER + "a,,1,2,0\n", '"keys.csv", line 2, location: expected nonempty text'),
        (HEADER + "a\x00,b,1,2,0\n", r"item: expected nonempty text without U+0000"),
        (
            HEADER + "a,b,,2,0\n",
            (
                "opening_balance: expected an integer from -9223372036854775808 to "
                '9223372036854775807, found ""'
            ),
        ),
        (HEADER + "a,b,1.0,2,0\n", "opening_balance: expected an integer"),
        (HEADER + "a,b,1e2,2,0\n", "opening_balance: expected an integer"),
        (HEADER + "a,b,1_000,2,0\n", "opening_balance: expected an integer"),
        (HEADER + "a,b,01,2,0\n", "opening_balance: expected an integer"),
        (HEADER + "a,b,+1,2,0\n", "opening_balance: expected an integer"),
        (HEADER + "a,b, 1,2,0\n", "opening_balance: expected an integer"),
        (HEADER + "a,b,\u0661,2,0\n", "opening_balance: expected an integer"),
        (HEADER + "a,b,9223372036854775808,2,0\n", "opening_balance: expected an integer"),
        (HEADER + f"a,b,{'9' * 5000},2,0\n", "opening_balance: expected an integer"),
        (HEADER + "a,b,1,true,0\n", "reorder_threshold: expected an integer"),
        (HEADER + "a,b,1,2,2\n", 'partition: expected an integer from 0 to 1, found "2"'),
        (HEADER + "a,b,1,2,-1\n", "partition: expected an integer from 0 to 1"),
        (HEADER + "a,b,1,2,0\na,b,1,2,1\n", "keys: expected each stock key once"),
        (HEADER + 'a,"b"c,1,2,0\n', '"keys.csv", line 2: expected CSV, found'),
        (HEADER + 'a,"b,1,2,0\n', '"keys.csv", line 2: expected CSV, found unexpected end of data'),
        (
            HEADER.encode() + b"c,\xc3\xa9,1,2,0\n" * 9_999 + b"a,\xe9,1,2,0\n",
            '"keys.csv", line 10001: expected UTF-8, found other bytes',
        ),
        (None, '/keys.csv": expected a readable file, found No such file or directory'),
    ],
)
def test_the_error_names_the_line_and_column_at_fault(folder, csv, message):
    with pytest.raises(ConfigurationError) as caught:
        folder(csv)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"path": "../keys.csv"}, "keys.path: expected a bare file name beside the configuration"),
        ({"path": "/keys.csv"}, "keys.path: expected a bare file name"),
        ({"path": "a/keys.csv"}, "keys.path: expected a bare file name"),
        ({"path": "a\\keys.csv"}, "keys.path: expected a bare file name"),
        ({"path": ".."}, "keys.path: expected a bare file name"),
        ({"path": "."}, "keys.path: expected a bare file name"),
        ({"path": ""}, "keys.path: expected a bare file name"),
        ({"path": "k\x00"}, "keys.path: expected a bare file name"),
        ({"path": 7}, "keys.path: expected a bare file name"),
        ({"path": "keys.csv", "x": 1}, 'keys: expected no members but path, found "x"'),
        ({}, "keys.path: expected a member, found none"),
        ("keys.csv", "keys: expected an array of keys"),
    ],
)
def test_the_file_of_keys_lies_beside_the_configuration(folder, keys, message):
    with pytest.raises(ConfigurationError) as caught:
        folder(HEADER + "a,b,1,2,0\n", keys=keys)
    assert message in str(caught.value)


def test_a_folder_is_no_file(folder, tmp_path):
    (tmp_path / "keys").mkdir()
    with pytest.raises(ConfigurationError, match='/keys": expected a readable file'):
        folder(None, keys={"path": "keys"})


def test_a_configuration_that_is_not_there(tmp_path):
    path = tmp_path / "absent.json"
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(path)
    assert str(caught.value).startswith(f'"{path}": expected a readable file')


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"keys":[],"keys":{"path":"x"}}', 'expected each member once, found "keys"'),
        (b'{"partitions":2.0}', "expected a plain integer"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{", "well-formed JSON"),
    ],
)
def test_a_configuration_file_is_strict_json(tmp_path, raw, message):
    path = tmp_path / "config.json"
    path.write_bytes(raw)
    with pytest.raises(StrictJsonError, match=message) as caught:
        load_configuration(path)
    assert caught.value.where.startswith(f'"{path}"')


def test_a_configuration_file_holds_an_object(tmp_path):
    (tmp_path / "config.json").write_bytes(b"[]")
    with pytest.raises(ConfigurationError, match="configuration: expected an object"):
        load_configuration(tmp_path / "config.json")
