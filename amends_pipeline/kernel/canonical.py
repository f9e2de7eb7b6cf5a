r"""JSON as we write it: one text for one value.

Compact, UTF-8, and in strings only `"`, `\` and U+0000 to U+001F are escaped, with the short form
where JSON has one and lower-case hexadecimal digits elsewhere. There are no floats in a ledger, so
none can be written.
"""

from __future__ import annotations

import hashlib
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

json_string = encode_basestring
"""Write one text as a JSON string, by the rule of this module."""


def compact_json(value: object) -> str:
    """Write `None`, booleans, integers, text, sequences and mappings, members in their given order.

    Raises `TypeError` for anything else: floats, bytes, and member names that are not text.
    """
    return _written(value, sort_members=False)


def canonical_json(value: object) -> bytes:
    """Write as `compact_json` does, members sorted by their UTF-8 bytes at every depth, as bytes.

    Raises `TypeError` as `compact_json` does, and `UnicodeEncodeError` for a lone surrogate.
    """
    return _written(value, sort_members=True).encode()


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _written(value: object, *, sort_members: bool) -> str:
    match value:
        case str():
            return json_string(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case dict():
            return _written_members(value, sort_members=sort_members)
        case list() | tuple():
            return f"[{','.join(_written(each, sort_members=sort_members) for each in value)}]"
    message = f"{type(value).__name__} has no canonical JSON form"
    raise TypeError(message)


def _written_members(value: Mapping[object, object], *, sort_members: bool) -> str:
    if not all(isinstance(name, str) for name in value):
        message = "a member name that is not text has no canonical JSON form"
        raise TypeError(message)
    # Code points sort as their UTF-8 bytes do.
    names: Iterable[str] = sorted(map(str, value)) if sort_members else map(str, value)
    members = (
        f"{json_string(name)}:{_written(value[name], sort_members=sort_members)}" for name in names
    )
    return f"{{{','.join(members)}}}"
