"""How a manifest is read."""

from __future__ import annotations

import pytest

from amends_pipeline.inventory.verify import Manifest, parse_manifest
from amends_pipeline.kernel.errors import InputError


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "well-formed JSON"),
        (b"[]", "manifest: expected"),
        (b'{"rejections": [], "rejections": []}', "expected each member once"),
        (b'{"exclusions": []}', "manifest.exclusions: expected"),
        (b'{"rejections": null}', "manifest.rejections: expected"),
        (b'{"rejections": [{"partition": 0, "offset": 1}]}', r"manifest.rejections\[0\].code"),
        (
            b'{"rejections": [{"partition": 0, "offset": 1, "code": "malformed"}]}',
            r"manifest.rejections\[0\].code: expected .*, found \"malformed\"",
        ),
        (
            b'{"rejections": [{"partition": true, "offset": 1, "code": "ROUTING"}]}',
            r"manifest.rejections\[0\].partition: expected",
        ),
        (
            b'{"rejections": [{"partition": 0, "offset": -1, "code": "ROUTING"}]}',
            r"manifest.rejections\[0\].offset: expected",
        ),
        (
            b'{"rejections": [{"partition": 0, "offset": "1", "code": "ROUTING"}]}',
            r"manifest.rejections\[0\].offset: expected",
        ),
        (
            (
                b'{"rejections": [{"partition": 0, "offset": 1, "code": "ROUTING"},'
                b' {"partition": 0, "offset": 1, "code": "ROUTING"}]}'
            ),
            r"manifest.rejections\[1\]: expected each entry once",
        ),
        (
            b'{"conflicts": [{"stock_key": {"item": "I"}, "txn_id": "T", "revision": 1}]}',
            r"manifest.conflicts\[0\].stock_key.location: expected",
        ),
        (
            (
                b'{"conflicts": [{"stock_key": {"item": "I", "location": "L"}, "txn_id": "T",'
                b' "revision": 9223372036854775808}]}'
            ),
            r"manifest.conflicts\[0\].revision: expected",
        ),
        (
            (
                b'{"conflicts": [{"stock_key": {"item": "I", "location": "L"}, "txn_id": "T",'
                b' "revision": 1, "qty": 1}]}'
            ),
            r"manifest.conflicts\[0\].qty: expected",
        ),
    ],
)
def test_a_manifest_is_read_strictly(raw, message):
    with pytest.raises(InputError, match=message):
        parse_manifest(raw)


def test_a_manifest_may_leave_out_an_empty_set():
    assert parse_manifest(b"{}") == Manifest()
    assert parse_manifest(b'{"conflicts": []}') == Manifest()
