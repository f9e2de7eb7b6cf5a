from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from amends_pipeline.kernel.errors import ConfigurationError, InputError
from amends_pipeline.ports import Extent, SourceRecord
from amends_pipeline_tests.contracts.bench import SOURCE

EVERY_BYTE = bytes(range(256))


def record(value: bytes = b"{}", partition: int = 0, raw_key: bytes | None = None) -> SourceRecord:
    return SourceRecord(partition, raw_key, value)


@pytest.fixture
def source(ledger):
    log = ledger.source(SOURCE)
    log.create(2)
    return log


def test_a_log_that_was_not_created_is_refused(ledger):
    log = ledger.source(SOURCE)
    for ask in (
        log.incarnation,
        log.extents,
        lambda: log.append([record()]),
        lambda: log.append([]),
        lambda: log.read(0, 0, 1, 1),
    ):
        with pytest.raises(InputError):
            ask()


def test_a_new_log_is_empty(source):
    assert source.source == SOURCE
    assert list(source.extents()) == [Extent(0, 0), Extent(0, 0)]


def test_making_a_log_twice_changes_nothing(source):
    source.append([record()])
    incarnation = source.incarnation()
    source.create(2)
    assert source.incarnation() == incarnation
    assert list(source.extents()) == [Extent(0, 1), Extent(0, 0)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_making_it_with_another_number_of_partitions_is_refused(source, partitions):
    with pytest.raises(ConfigurationError):
        source.create(partitions)
    assert len(source.extents()) == 2


def test_an_incarnation_belongs_to_one_log(ledger, source):
    other = ledger.source("depot-feed-2")
    other.create(2)
    assert other.incarnation() != source.incarnation()
    other.append([record()])
    assert list(source.extents()) == [Extent(0, 0), Extent(0, 0)]
    assert ledger.source(SOURCE).incarnation() == source.incarnation()


def test_offsets_are_dense_in_each_partition(source):
    partitions = [0, 1, 1, 0, 1]
    ends = source.append([record(b"%d" % i, p) for i, p in enumerate(partitions)])
    assert list(ends) == [2, 3]
    assert list(source.append([record(b"5", 0)])) == [3, 3]
    assert list(source.append([])) == [3, 3]
    assert [list(source.read(p, 0, 9, 9).offsets) for p in (0, 1)] == [[0, 1, 2], [0, 1, 2]]
    assert list(source.read(0, 0, 9, 9).values) == [b"0", b"3", b"5"]
    assert list(source.read(1, 0, 9, 9).values) == [b"1", b"2", b"4"]


@pytest.mark.parametrize("partition", [-1, 2, 99])
def test_a_record_for_no_partition_refuses_all_of_its_append(source, partition):
    source.append([record(b"before")])
    with pytest.raises(InputError):
        source.append([record(b"one"), record(b"two", 1), record(b"three", partition)])
    assert list(source.extents()) == [Extent(0, 1), Extent(0, 0)]
    assert list(source.append([record(b"after")])) == [2, 0]
    assert list(source.read(0, 0, 2, 9).values) == [b"before", b"after"]


def test_records_that_end_in_an_error_leave_no_trace(source):
    def records():
        yield record(b"one")
        yield record(b"two", 1)
        raise InputError("line 3", expected="a line", found="none")

    with pytest.raises(InputError, match="line 3"):
        source.append(records())
    assert list(source.extents()) == [Extent(0, 0), Extent(0, 0)]
    assert list(source.append([record(b"after", 1)])) == [0, 1]


@pytest.mark.parametrize(
    "value",
    [b"", EVERY_BYTE, EVERY_BYTE * 5_000, b"\\x00", b"'; --", b'\n\r\t,"\\N'],
    ids=["empty", "every byte", "over 1 MiB", "an escape", "a quote", "a copy line"],
)
def test_values_are_kept_byte_for_byte(source, value):
    source.append([record(value), record(b"next")])
    assert list(source.read(0, 0, 2, 2).values) == [value, b"next"]


def test_raw_keys_are_kept_as_given_or_the_log_has_none(source):
    given = [None, b"", EVERY_BYTE, b'["A","B"]']
    source.append([record(raw_key=raw_key) for raw_key in given])
    assert list(source.read(0, 0, 9, 9).keys) in (given, [None] * 4)


# Five records at 0 to 4: what is read, and how far it reaches.
READS = [
    # start, until, limit, offsets, covered until
    (0, 5, 9, [0, 1, 2, 3, 4], 5),
    (0, 5, 5, [0, 1, 2, 3, 4], 5),
    (0, 5, 4, [0, 1, 2, 3], 4),
    (0, 5, 1, [0], 1),
    (2, 5, 2, [2, 3], 4),
    (2, 4, 9, [2, 3], 4),
    (2, 4, 2, [2, 3], 4),
    (4, 5, 1, [4], 5),
    (3, 3, 9, [], 3),
    (5, 5, 9, [], 5),
    (0, 9, 9, [0, 1, 2, 3, 4], 9),
    (0, 9, 5, [0, 1, 2, 3, 4], 9),
    (5, 9, 9, [], 9),
    (7, 9, 1, [], 9),
]


@pytest.mark.parametrize("case", READS, ids=str)
def test_a_read_says_how_far_it_reaches(source, case):
    start, until, limit, offsets, covered = case
    source.append([record(b"%d" % i) for i in range(5)])
    records = source.read(0, start, until, limit)
    assert (records.start, records.until) == (start, covered)
    assert list(records.offsets) == offsets
    assert list(records.values) == [b"%d" % offset for offset in offsets]
    assert list(records.keys) == [None] * len(offsets)


# Records at 0, 1, 4 and 5 of eight offsets.
GAPPED = [
    (0, 8, 9, [0, 1, 4, 5], 8),
    (0, 8, 4, [0, 1, 4, 5], 8),
    (0, 8, 3, [0, 1, 4], 5),
    (0, 8, 2, [0, 1], 4),
    (2, 8, 9, [4, 5], 8),
    (2, 8, 1, [4], 5),
    (2, 4, 9, [], 4),
    (2, 3, 9, [], 3),
    (1, 4, 1, [1], 4),
    (6, 8, 9, [], 8),
    (6, 8, 1, [], 8),
]


@pytest.mark.parametrize("case", GAPPED, ids=str)
def test_offsets_that_nobody_has_are_passed(ledger, source, case):
    start, until, limit, offsets, covered = case
    source.append([record()] * 2)
    ledger.skip(SOURCE, 0, 2)
    source.append([record()] * 2)
    ledger.skip(SOURCE, 0, 2)
    assert list(source.extents()) == [Extent(0, 8), Extent(0, 0)]
    records = source.read(0, start, until, limit)
    assert (records.start, list(records.offsets), records.until) == (start, offsets, covered)


@pytest.mark.parametrize("partition", [-1, 2])
def test_reading_a_partition_that_is_not_there_is_refused(source, partition):
    with pytest.raises(InputError):
        source.read(partition, 0, 1, 1)


def test_a_log_may_have_forgotten_its_beginning(ledger, source):
    source.append([record(b"%d" % i) for i in range(5)])
    ledger.forget(SOURCE, 0, 3)
    assert list(source.extents()) == [Extent(3, 5), Extent(0, 0)]
    assert list(source.read(0, 3, 5, 9).values) == [b"3", b"4"]
    assert list(source.append([record(b"5")])) == [6, 0]


def test_what_was_read_is_not_shared(source):
    source.append([record(b"one"), record(b"two")])
    before = source.read(0, 0, 2, 2)
    source.append([record(b"three")])
    assert list(before.values) == [b"one", b"two"]
    for column in before[2:]:
        if isinstance(column, list):
            column.clear()
    assert list(source.read(0, 0, 2, 2).values) == [b"one", b"two"]


def test_a_log_is_there_for_every_process(ledger, source):
    source.append([record(b"one")])
    again = ledger.reopened().source(SOURCE)
    assert again.incarnation() == source.incarnation()
    assert list(again.append([record(b"two")])) == [2, 0]
    assert list(source.read(0, 0, 2, 2).values) == [b"one", b"two"]


def test_appends_at_the_same_time_come_one_after_the_other(source):
    def append(writer):
        for number in range(10):
            name = b"%d.%d." % (writer, number)
            source.append([record(name + b"0"), record(name + b"1", 1), record(name + b"2")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    assert list(source.extents()) == [Extent(0, 80), Extent(0, 40)]
    on_0, on_1 = (source.read(p, 0, 80, 80) for p in (0, 1))
    assert list(on_0.offsets) == list(range(80))
    pairs = list(zip(on_0.values[::2], on_0.values[1::2], strict=True))
    assert [one[:-1] + b"2" for one, _ in pairs] == [two for _, two in pairs]
    assert [one[:-1] for one, _ in pairs] == [value[:-1] for value in on_1.values]
    assert len(set(on_0.values)) == 80
