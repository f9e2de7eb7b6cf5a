from __future__ import annotations

import copy
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.config import (
    KeyConfig,
    StockKey,
    default_partition,
    parse_configuration,
    to_document,
)
from amends_pipeline.kernel.canonical import canonical_json
from amends_pipeline.kernel.errors import ConfigurationError
from amends_pipeline.kernel.instants import Instant

DEMO_KEY = {
    "stock_key": {"item": "DEMO-PART", "location": "DEPOT-A"},
    "opening_balance": 100,
    "reorder_threshold": 60,
    "partition": 0,
}
DEMO = {
    "schema_version": 1,
    "namespace": "main",
    "source": "depot-feed-1",
    "partitions": 2,
    "origin": "2026-01-01T00:00:00Z",
    "keys": [DEMO_KEY],
}
ABSENT = object()

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def changed(path: str, value: object) -> dict:
    """Return the demo configuration with one member replaced, added, or taken away."""
    document = copy.deepcopy(DEMO)
    *parents, name = path.split(".")
    inner = document
    for parent in parents:
        inner = inner[int(parent) if parent.isdigit() else parent]
    if value is ABSENT:
        del inner[name]
    else:
        inner[int(name) if name.isdigit() else name] = value
    return document


def key_of(item: str, location: str, **members: object) -> dict:
    stock_key = {"item": item, "location": location}
    return {"stock_key": stock_key, "opening_balance": 0, "reorder_threshold": 0, **members}


def crc32(data: bytes) -> int:
    """Divide bit by bit, by the polynomial of IEEE 802.3."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0xEDB88320 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


# What a configuration means


def test_the_demo_configuration_means_what_it_says():
    config = parse_configuration(DEMO)
    assert (config.schema_version, config.namespace, config.source) == (1, "main", "depot-feed-1")
    assert (config.partitions, config.origin) == (2, Instant(20_454, 0))
    assert config.keys == (KeyConfig(StockKey("DEMO-PART", "DEPOT-A"), 100, 60, 0),)


def test_the_digest_covers_the_canonical_document():
    text = (
        '{"keys":[{"opening_balance":100,"partition":0,"reorder_threshold":60,'
        '"stock_key":{"item":"DEMO-PART","location":"DEPOT-A"}}],"namespace":"main",'
        '"origin":"2026-01-01T00:00:00Z","partitions":2,"schema_version":1,'
        '"source":"depot-feed-1"}'
    )
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert parse_configuration(DEMO).digest == expected
    # By sha256sum, once, so that a change of the text above shows as well.
    assert expected == "16e560afb8cd95bc4275c98bbd42cc99cdd769de22c88b720af8101e907e00a7"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("origin", "2026-01-01T01:00:00+01:00"),
        ("origin", "2026-01-01T00:00:00.000-00:00"),
    ],
)
def test_the_same_meaning_has_the_same_digest(path, value):
    assert parse_configuration(changed(path, value)).digest == parse_configuration(DEMO).digest


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("namespace", "main-2"),
        ("source", "depot-feed-2"),
        ("partitions", 3),
        ("origin", "2026-01-01T00:00:00.000000001Z"),
        ("keys.0.opening_balance", 101),
        ("keys.0.reorder_threshold", 61),
        ("keys.0.partition", 1),
        ("keys.0.stock_key.item", "DEMO-PART-2"),
        ("keys.0.stock_key.location", "DEPOT-B"),
        ("keys.1", ABSENT),
    ],
)
def test_another_meaning_has_another_digest(path, value):
    if value is ABSENT:
        other = {**DEMO, "keys": [DEMO_KEY, key_of("B", "L")]}
    else:
        other = changed(path, value)
    assert parse_configuration(other).digest != parse_configuration(DEMO).digest


@given(st.data())
def test_keys_in_any_order_make_one_configuration(data):
    pairs = data.draw(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=6, unique=True))
    keys = [
        {
            **key_of(*pair),
            "opening_balance": data.draw(INT64),
            "reorder_threshold": data.draw(INT64),
            **data.draw(st.sampled_from([{}, {"partition": 1}])),
        }
        for pair in pairs
    ]
    config = parse_configuration({**DEMO, "keys": keys})
    shuffled = parse_configuration({**DEMO, "keys": data.draw(st.permutations(keys))})
    assert shuffled == config
    assert shuffled.digest == config.digest
    encoded = [key.stock_key.encoded.encode() for key in config.keys]
    assert encoded == sorted(encoded)
    assert config.digest == hashlib.sha256(canonical_json(to_document(config))).hexdigest()
    assert parse_configuration(to_document(config)) == config
    for number, key in enumerate(config.keys):
        assert config.number_of(tuple(key.stock_key)) == number
        assert config.partition_of(key.stock_key) == key.partition


def test_keys_are_numbered_by_their_encoded_bytes_and_not_by_their_items():
    # A quotation mark ends "a"; U+0021 sorts before it, although "a" sorts before "a!".
    config = parse_configuration({**DEMO, "keys": [key_of("a", "x"), key_of("a!", "x")]})
    assert [key.stock_key.item for key in config.keys] == ["a!", "a"]


def test_no_normal_form_makes_two_keys_one():
    keys = [key_of("Caf\u00e9", "L"), key_of("Cafe\u0301", "L")]
    config = parse_configuration({**DEMO, "keys": keys})
    assert len(config.keys) == 2
    assert config.number_of(("Caf\u00e9", "L")) != config.number_of(("Cafe\u0301", "L"))


def test_odd_names_are_ordinary():
    names = [
        "a/b",
        'say "x"',
        "pipe|pipe",
        " blank ",
        "😀",
        "x" * 200,
        "\n",
        "\\",
        "\u202e",
        "\ud7ff",
    ]
    config = parse_configuration({**DEMO, "keys": [key_of(name, name) for name in names]})
    assert {key.stock_key.item for key in config.keys} == set(names)


# Where keys lie


@pytest.mark.parametrize(
    ("item", "location", "encoded"),
    [
        ("DEMO-PART", "DEPOT-A", '["DEMO-PART","DEPOT-A"]'),
        ("a/b", "Café", '["a/b","Café"]'),
        ('"', "\\\n\x01", '["\\"","\\\\\\n\\u0001"]'),
    ],
)
def test_an_unplaced_key_lies_where_the_checksum_of_its_encoded_form_says(item, location, encoded):
    assert StockKey(item, location).encoded == encoded
    for partitions in (1, 2, 7):
        expected = crc32(encoded.encode()) % partitions
        assert default_partition((item, location), partitions) == expected
        keys = [key_of(item, location)]
        config = parse_configuration({**DEMO, "partitions": partitions, "keys": keys})
        assert config.keys[0].partition == expected
        assert config.partition_of((item, location)) == expected


def test_the_checksum_of_these_tests_is_crc_32():
    assert crc32(b"123456789") == 0xCBF43926  # the check value of the published catalogues


def test_a_key_that_is_not_configured_has_no_number_but_a_partition():
    config = parse_configuration(DEMO)
    assert config.number_of(("NOPE", "DEPOT-A")) is None
    assert config.partition_of(("NOPE", "DEPOT-A")) == crc32(b'["NOPE","DEPOT-A"]') % 2


# What no configuration can be


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema_version", ABSENT, "configuration.schema_version: expected a member, found none"),
        ("schema_version", 2, "schema_version: expected the integer 1, found 2"),
        ("schema_version", True, "schema_version: expected the integer 1, found True"),
        ("schema_version", 1.0, "schema_version: expected the integer 1, found 1.0"),
        ("schema_version", "1", 'schema_version: expected the integer 1, found "1"'),
        ("namespace", "", "namespace: expected a name"),
        ("namespace", "Main", 'found "Main"'),
        ("namespace", "-main", 'found "-main"'),
        ("namespace", "main\n", r'found "main\n"'),
        ("namespace", "ma in", 'found "ma in"'),
        ("namespace", "maïn", 'found "maïn"'),
        ("namespace", "x" * 64, "namespace: expected a name of at most 63"),
        ("namespace", 7, "namespace: expected a name"),
        ("namespace", None, "found None"),
        ("source", "a|b", "source: expected a name"),
        ("source", ABSENT, "configuration.source: expected a member"),
        ("partitions", 0, "partitions: expected an integer from 1 to 10000, found 0"),
        ("partitions", 10_001, "partitions: expected an integer from 1 to 10000"),
        ("partitions", True, "partitions: expected an integer"),
        ("partitions", "2", "partitions: expected an integer"),
        (
            "origin",
            "2026-01-01",
            'origin: expected a timestamp such as 2026-01-01T00:00:00Z, found "2',
        ),
        ("origin", 0, "origin: expected a timestamp"),
        (
            "origin",
            "0000-12-31T23:59:59Z",
            "origin: expected an instant from 0001-01-01 to 9999-12-31",
        ),
        ("origin", "9999-12-31T23:59:59-00:01", "origin: expected an instant from"),
        ("keys", [], "keys: expected at least one key, found none"),
        ("keys", ABSENT, "configuration.keys: expected a member"),
        ("keys", None, "keys: expected an array of keys"),
        ("keys", {"path": "keys.csv"}, "keys: expected an array of keys, or in a file a path"),
        ("keys", "keys.csv", 'or in a file a path to a file of keys, found "keys.csv"'),
        ("keys.0", "DEMO-PART", 'keys[0]: expected an object, found "DEMO-PART"'),
        ("keys.0.stock_key", ABSENT, "keys[0].stock_key: expected a member, found none"),
        ("keys.0.stock_key", ["a", "b"], "keys[0].stock_key: expected an object"),
        ("keys.0.stock_key.item", ABSENT, "keys[0].stock_key.item: expected a member"),
        ("keys.0.stock_key.item", "", "keys[0].stock_key.item: expected nonempty text"),
        (
            "keys.0.stock_key.item",
            "a\x00",
            (
                r"keys[0].stock_key.item: expected nonempty text without "
                r'U+0000 and lone surrogates, found "a\x00"'
            ),
        ),
        ("keys.0.stock_key.item", "\ud800", r'found "\ud800"'),
        ("keys.0.stock_key.location", 5, "keys[0].stock_key.location: expected nonempty text"),
        (
            "keys.0.stock_key.bin",
            "x",
            'keys[0].stock_key: expected no members but item, location, found "bin"',
        ),
        ("keys.0.opening_balance", 2**63, "keys[0].opening_balance: expected an integer from"),
        ("keys.0.opening_balance", -(2**63) - 1, "keys[0].opening_balance: expected"),
        ("keys.0.opening_balance", False, "keys[0].opening_balance: expected"),
        ("keys.0.opening_balance", ABSENT, "keys[0].opening_balance: expected a member"),
        ("keys.0.reorder_threshold", "60", "keys[0].reorder_threshold: expected an integer"),
        ("keys.0.partition", 2, "keys[0].partition: expected an integer from 0 to 1, found 2"),
        ("keys.0.partition", -1, "keys[0].partition: expected an integer from 0 to 1"),
        ("keys.0.partition", None, "keys[0].partition: expected an integer from 0 to 1"),
        (
            "keys.0.Partition",
            0,
            (
                "keys[0]: expected no members but stock_key, opening_balance, "
                'reorder_threshold, partition, found "Partition"'
            ),
        ),
        (
            "note",
            "x",
            (
                "configuration: expected no members but schema_version, namespace, source, "
                'partitions, origin, keys, found "note"'
            ),
        ),
    ],
)
def test_the_error_names_the_member_at_fault(path, value, message):
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(changed(path, value))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("document", "found"), [(None, "None"), ([], "[]"), ("x", '"x"'), (1, "1")]
)
def test_a_configuration_is_an_object(document, found):
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(document)
    assert str(caught.value) == f"configuration: expected an object, found {found}"


def test_a_key_stands_once():
    twice = {**DEMO, "keys": [key_of("b", "c"), DEMO_KEY, {**DEMO_KEY, "opening_balance": 1}]}
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(twice)
    assert str(caught.value) == (
        r'keys: expected each stock key once, found "[\"DEMO-PART\",\"DEPOT-A\"]" twice'
    )
