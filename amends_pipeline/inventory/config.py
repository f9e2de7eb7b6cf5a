"""What a namespace means: its keys, their openings and thresholds, and the digest of all that.

A configuration is a JSON document:

    {"schema_version": 1, "namespace": "main", "source": "depot-feed-1", "partitions": 2,
     "origin": "2026-01-01T00:00:00Z",
     "keys": [{"stock_key": {"item": "DEMO-PART", "location": "DEPOT-A"},
               "opening_balance": 100, "reorder_threshold": 60, "partition": 0}]}

Where there are many keys, `keys` is `{"path": "keys.csv"}`: a CSV file beside the document.
No Unicode normalisation takes place anywhere: two spellings of one word are two keys.
"""

from __future__ import annotations

import csv
import hashlib
import re
import zlib
from array import array
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from amends_pipeline.kernel import strict_json
from amends_pipeline.kernel.canonical import json_string
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import ConfigurationError
from amends_pipeline.kernel.instants import (
    Instant,
    InstantSyntaxError,
    in_range,
    instant_text,
    parse_instant,
)
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

SCHEMA_VERSION: Final = 1
MAX_PARTITIONS: Final = 10_000
"""More than a source will have; each costs rows, locks and a partition key in Dagster."""

KEY_COLUMNS: Final = ("item", "location", "opening_balance", "reorder_threshold", "partition")
"""The header of a file of keys, in this order."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_BARE_FILE_NAME = re.compile(r"[^/\\\x00]+")
_PLAIN_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_MEMBERS = ("schema_version", "namespace", "source", "partitions", "origin", "keys")
_KEY_MEMBERS = ("stock_key", "opening_balance", "reorder_threshold")


class StockKey(NamedTuple):
    """An item at a location. Both are nonempty text."""

    item: str
    location: str

    @property
    def encoded(self) -> str:
        """The compact JSON array `["ITEM","LOCATION"]`: raw key, routing input and sort order."""
        return f"[{json_string(self.item)},{json_string(self.location)}]"


class KeyConfig(NamedTuple):
    """One configured stock key, its partition resolved. Quantities are signed 64-bit integers."""

    stock_key: StockKey
    opening_balance: int
    reorder_threshold: int
    partition: int


@dataclass(frozen=True)
class NamespaceConfig:
    """A valid configuration, as `parse_configuration` and `load_configuration` make it."""

    schema_version: int
    namespace: str
    source: str
    partitions: int
    origin: Instant
    keys: tuple[KeyConfig, ...]
    """In the order of their encoded stock keys as bytes. The index of a key is its key number."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of the resolved document, in hexadecimal."""
        hashed = hashlib.sha256(b'{"keys":[')
        for number, key in enumerate(self.keys):
            hashed.update(f"{',' if number else ''}{_canonical_key(key)}".encode())
        # What follows "keys" in the order of names. Names and instants hold nothing to escape.
        hashed.update(
            f'],"namespace":"{self.namespace}","origin":"{instant_text(self.origin)}"'
            f',"partitions":{self.partitions},"schema_version":{self.schema_version}'
            f',"source":"{self.source}"}}'.encode()
        )
        return hashed.hexdigest()

    @cached_property
    def numbers(self) -> Mapping[tuple[str, str], int]:
        """Key number by (item, location)."""
        return {key.stock_key: number for number, key in enumerate(self.keys)}

    @cached_property
    def placements(self) -> Sequence[int]:
        """Partition by key number, packed: a slice of records looks keys up at random."""
        return array("i", [key.partition for key in self.keys])

    @cached_property
    def openings(self) -> Sequence[int]:
        """Opening balance by key number, packed."""
        return array("q", [key.opening_balance for key in self.keys])

    @cached_property
    def thresholds(self) -> Sequence[int]:
        """Reorder threshold by key number, packed."""
        return array("q", [key.reorder_threshold for key in self.keys])

    def number_of(self, stock_key: tuple[str, str]) -> int | None:
        """Return the key number of (item, location), or None for a key that is not configured."""
        return self.numbers.get(stock_key)

    def partition_of(self, stock_key: tuple[str, str]) -> int:
        """Return the partition that (item, location) lies on, configured or not."""
        number = self.numbers.get(stock_key)
        if number is None:
            return default_partition(stock_key, self.partitions)
        return self.placements[number]


def default_partition(stock_key: tuple[str, str], partitions: int) -> int:
    """Return where a key lies that no configuration places: CRC-32 of the encoded key, modulo."""
    return zlib.crc32(StockKey(*stock_key).encoded.encode()) % partitions


def load_configuration(path: Path) -> NamespaceConfig:
    """Read a configuration file, and the file of keys beside it if it names one.

    Raises `ConfigurationError`, or `StrictJsonError` when the file is not JSON as we read it.
    """
    document = strict_json.loads(_read(path), where=shown(str(path)))
    keys = document.get("keys") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(keys, dict):
        name = _members(keys, ("path",), where="keys")["path"]
        return _configuration(document, partial(_keys_of_file, path.parent, name))
    return parse_configuration(document)


def parse_configuration(document: object) -> NamespaceConfig:
    """Check a configuration whose keys stand in the document itself.

    Raises `ConfigurationError` that names the member at fault.
    """
    if not isinstance(document, dict):
        raise ConfigurationError("configuration", expected="an object", found=shown(document))
    return _configuration(document, partial(_keys_of_array, document.get("keys")))


def to_document(config: NamespaceConfig) -> dict[str, object]:
    """Return the resolved document: keys in order and inline, partitions written, origin in UTC."""
    return {
        "schema_version": config.schema_version,
        "namespace": config.namespace,
        "source": config.source,
        "partitions": config.partitions,
        "origin": instant_text(config.origin),
        "keys": [
            {
                "stock_key": {"item": key.stock_key.item, "location": key.stock_key.location},
                "opening_balance": key.opening_balance,
                "reorder_threshold": key.reorder_threshold,
                "partition": key.partition,
            }
            for key in config.keys
        ],
    }


def _canonical_key(key: KeyConfig) -> str:
    (item, location), opening_balance, reorder_threshold, partition = key
    return (
        f'{{"opening_balance":{opening_balance},"partition":{partition}'
        f',"reorder_threshold":{reorder_threshold},"stock_key":'
        f'{{"item":{json_string(item)},"location":{json_string(location)}}}}}'
    )


def _configuration(
    document: Mapping[str, object], read_keys: Callable[[int], Iterator[KeyConfig]]
) -> NamespaceConfig:
    members = _members(document, _MEMBERS, where="configuration")
    version = _integer(members["schema_version"], "schema_version", SCHEMA_VERSION, SCHEMA_VERSION)
    namespace = _name(members["namespace"], "namespace")
    source = _name(members["source"], "source")
    partitions = _integer(members["partitions"], "partitions", 1, MAX_PARTITIONS)
    origin = _origin(members["origin"])
    keys = sorted(read_keys(partitions), key=lambda key: key.stock_key.encoded)
    if not keys:
        raise ConfigurationError("keys", expected="at least one key", found="none")
    for one, other in pairwise(keys):
        if one.stock_key == other.stock_key:
            found = f"{shown(one.stock_key.encoded)} twice"
            raise ConfigurationError("keys", expected="each stock key once", found=found)
    return NamespaceConfig(version, namespace, source, partitions, origin, tuple(keys))


def _keys_of_array(value: object, partitions: int) -> Iterator[KeyConfig]:
    if not isinstance(value, list):
        expected = "an array of keys, or in a file a path to a file of keys"
        raise ConfigurationError("keys", expected=expected, found=shown(value))
    for index, element in enumerate(value):
        yield _key_of_object(element, f"keys[{index}]", partitions)


def _key_of_object(value: object, where: str, partitions: int) -> KeyConfig:
    members = _members(value, _KEY_MEMBERS, where=where, optional=("partition",))
    pair = _members(members["stock_key"], ("item", "location"), where=f"{where}.stock_key")
    stock_key = StockKey(
        _text(pair["item"], f"{where}.stock_key.item"),
        _text(pair["location"], f"{where}.stock_key.location"),
    )
    if "partition" in members:
        partition = _integer(members["partition"], f"{where}.partition", 0, partitions - 1)
    else:
        partition = default_partition(stock_key, partitions)
    opening = _integer(members["opening_balance"], f"{where}.opening_balance", MIN_INT64, MAX_INT64)
    threshold = _integer(
        members["reorder_threshold"], f"{where}.reorder_threshold", MIN_INT64, MAX_INT64
    )
    return KeyConfig(stock_key, opening, threshold, partition)


def _keys_of_file(folder: Path, name: object, partitions: int) -> Iterator[KeyConfig]:
    if not isinstance(name, str) or name in {".", ".."} or not _BARE_FILE_NAME.fullmatch(name):
        expected = "a bare file name beside the configuration"
        raise ConfigurationError("keys.path", expected=expected, found=shown(name))
    path = folder / name
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            yield from _keys_of_lines(lines, shown(name), partitions)
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeError:
        where = f"{shown(name)}, line {_line_of_other_bytes(path)}"
        raise ConfigurationError(where, expected="UTF-8", found="other bytes") from None


def _line_of_other_bytes(path: Path) -> int:
    """Count to it: decoding goes by blocks, and cannot tell."""
    with path.open("rb") as lines:
        return next(number for number, line in enumerate(lines, 1) if not _is_utf_8(line))


def _is_utf_8(line: bytes) -> bool:
    return _is_unicode(line.decode("utf-8", "surrogateescape"))


def _keys_of_lines(lines: Iterable[str], name: str, partitions: int) -> Iterator[KeyConfig]:
    rows = _numbered_rows(lines, name)
    _, header = next(rows, (1, []))
    if tuple(header) != KEY_COLUMNS:
        expected = f"the columns {', '.join(KEY_COLUMNS)}"
        found = shown(", ".join(header))
        raise ConfigurationError(f"{name}, line 1", expected=expected, found=found)
    # A million keys stand at few locations: equal names are kept once.
    kept: dict[str, str] = {}
    for number, row in rows:
        if not row:
            continue
        try:
            yield _key_of_row(row, kept, partitions)
        except ConfigurationError as error:
            where = f"{name}, line {number}, {error.where}"
            raise ConfigurationError(where, expected=error.expected, found=error.found) from None


def _numbered_rows(lines: Iterable[str], name: str) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(lines, strict=True)
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        where = f"{name}, line {rows.line_num}"
        raise ConfigurationError(where, expected="CSV", found=str(error)) from None


def _key_of_row(row: list[str], kept: dict[str, str], partitions: int) -> KeyConfig:
    if len(row) != len(KEY_COLUMNS):
        expected = f"{len(KEY_COLUMNS)} columns"
        raise ConfigurationError("the row", expected=expected, found=str(len(row)))
    item, location, opening_balance, reorder_threshold, partition = row
    location = _text(location, "location")
    stock_key = StockKey(_text(item, "item"), kept.setdefault(location, location))
    return KeyConfig(
        stock_key,
        _integer_text(opening_balance, "opening_balance", MIN_INT64, MAX_INT64),
        _integer_text(reorder_threshold, "reorder_threshold", MIN_INT64, MAX_INT64),
        _integer_text(partition, "partition", 0, partitions - 1)
        if partition
        else default_partition(stock_key, partitions),
    )


def _members(
    value: object, names: tuple[str, ...], *, where: str, optional: tuple[str, ...] = ()
) -> dict[str, object]:
    """Return the members of an object that has `names`, perhaps `optional`, and no others."""
    if not isinstance(value, dict):
        raise ConfigurationError(where, expected="an object", found=shown(value))
    for name in names:
        if name not in value:
            raise ConfigurationError(f"{where}.{name}", expected="a member", found="none")
    for name in value:
        if name not in names and name not in optional:
            expected = f"no members but {', '.join([*names, *optional])}"
            raise ConfigurationError(where, expected=expected, found=shown(name))
    return value


def _name(value: object, where: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        expected = "a name of at most 63 of a-z, 0-9 and -, not beginning with -"
        raise ConfigurationError(where, expected=expected, found=shown(value))
    return value


def _origin(value: object) -> Instant:
    expected = "a timestamp such as 2026-01-01T00:00:00Z"
    if not isinstance(value, str):
        raise ConfigurationError("origin", expected=expected, found=shown(value))
    try:
        origin = parse_instant(value)
    except InstantSyntaxError:
        raise ConfigurationError("origin", expected=expected, found=shown(value)) from None
    if not in_range(origin):
        expected = "an instant from 0001-01-01 to 9999-12-31 in UTC"
        raise ConfigurationError("origin", expected=expected, found=shown(value))
    return origin


def _text(value: object, where: str) -> str:
    if (
        not isinstance(value, str)
        or not value
        or "\x00" in value
        or not (value.isascii() or _is_unicode(value))
    ):
        expected = "nonempty text without U+0000 and lone surrogates"
        raise ConfigurationError(where, expected=expected, found=shown(value))
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(value: object, where: str, low: int, high: int) -> int:
    # A boolean is an int to Python, and 1.0 equals 1: neither is a number here.
    if type(value) is not int or not low <= value <= high:
        raise ConfigurationError(where, expected=_range_text(low, high), found=shown(value))
    return value


def _integer_text(text: str, where: str, low: int, high: int) -> int:
    # Checked before conversion: int() also takes blanks, underscores and foreign digits.
    value = int(text) if _PLAIN_INTEGER.fullmatch(text) else None
    if value is None or not low <= value <= high:
        raise ConfigurationError(where, expected=_range_text(low, high), found=shown(text))
    return value


def _range_text(low: int, high: int) -> str:
    return f"the integer {low}" if low == high else f"an integer from {low} to {high}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> ConfigurationError:
    found = error.strerror or type(error).__name__
    return ConfigurationError(shown(str(path)), expected="a readable file", found=found)
