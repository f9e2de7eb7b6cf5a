"""An output log in memory, for tests and simulation. It keeps bytes, as a broker would."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from amends_pipeline.inventory.envelope import Encoder, EnvelopeBatch
from amends_pipeline.inventory.envelope_columns import Envelopes
from amends_pipeline.inventory.wire import Decoder
from amends_pipeline.kernel.errors import ProtocolStop
from amends_pipeline.ports import Segment, Unit
from amends_pipeline.store.memory_tables import MemoryTables


class MemoryOutputLog:
    """An `OutputLog` over `MemoryTables`. What was appended together is read as one segment."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables
        self._codecs: dict[Unit, tuple[Encoder, Decoder]] = {}

    def append(self, unit: Unit, envelopes: Envelopes) -> int:
        """Append in order, all or none. Returns the offset of the first."""
        encoder, _ = self._codec(unit)
        return self.append_bytes(unit, [encoder.encode(envelope) for envelope in envelopes])

    def append_bytes(self, unit: Unit, rows: Sequence[bytes]) -> int:
        """Append what anybody may write to a log, envelopes or not."""
        with self._tables.lock:
            table = self._tables.output(unit)
            base = len(table.rows)
            if rows:
                table.bases.append(base)
                table.rows += rows
            return base

    def end(self, unit: Unit) -> int:
        """The offset after the last row."""
        with self._tables.lock:
            return len(self._tables.output(unit).rows)

    def raw_rows(self, unit: Unit) -> Sequence[bytes]:
        """All rows as they stand in the log."""
        with self._tables.lock:
            return self._tables.output(unit).rows.copy()

    def read(self, unit: Unit, start: int, limit: int) -> Iterator[Segment]:
        """Segments from offset `start` on, at most `limit` rows, up to a row that is none."""
        _, decoder = self._codec(unit)
        with self._tables.lock:
            table = self._tables.output(unit)
            stop = min(start + limit, len(table.rows))
            first = bisect_right(table.bases, start)
            cuts = [start, *(base for base in table.bases[first:] if base < stop), stop]
            rows = table.rows[start:stop]
        for base, end in pairwise(cuts):
            batch, stopped = _decoded(decoder, base, rows[base - start : end - start])
            if batch:
                yield Segment(base, batch)
            if stopped is not None:
                raise stopped

    def _codec(self, unit: Unit) -> tuple[Encoder, Decoder]:
        codec = self._codecs.get(unit)
        if codec is None:
            with self._tables.lock:
                self._tables.unit(unit)
                config = self._tables.namespace(unit.namespace).config
            codec = Encoder(config, unit.partition), Decoder(config, unit.partition)
            self._codecs[unit] = codec
        return codec


def _decoded(
    decoder: Decoder, base: int, rows: Sequence[bytes]
) -> tuple[EnvelopeBatch, ProtocolStop | None]:
    batch = EnvelopeBatch()
    for offset, raw in enumerate(rows, base):
        try:
            batch.add(decoder.decode(raw))
        except ProtocolStop as stop:
            where = f"output offset {offset}, {stop.where}"
            return batch, ProtocolStop(where, expected=stop.expected, found=stop.found)
    return batch, None
