"""The file of `bank_balances`: what readers open, and what the checks judge."""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from amends_pipeline.flows.bank_answer import Cutoffs
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import OperationError

FILE = "balances.parquet"
COLUMNS = (
    "account_id",
    "currency",
    "normal_side",
    "raw_balance_minor",
    "normal_balance_minor",
)


class Table(NamedTuple):
    """Balances, and what they are of."""

    version: str
    """Of the export that they were made from."""
    cutoffs: Cutoffs
    coverage: Mapping[str, Any]
    """Of the fold's result."""
    rows: Sequence[Mapping[str, str]]
    """By account id."""

    @property
    def currencies(self) -> Sequence[str]:
        """Those of the rows, in order."""
        return sorted({row["currency"] for row in self.rows})


def write(folder: Path, table: Table) -> Path:
    """Put balances into the file, which is complete whenever it is there. Raises OperationError."""
    import pandas as pd  # noqa: PLC0415 - half a second that no other step shall pay

    frame = pd.DataFrame(
        [[row[name] for name in COLUMNS] for row in table.rows], columns=[*COLUMNS], dtype="string"
    )
    frame.attrs = {
        "version": table.version,
        "cutoffs": table.cutoffs._asdict(),
        "coverage": dict(table.coverage),
    }
    path = folder / FILE
    part = path.with_name(f".{uuid.uuid4().hex}")
    try:
        frame.to_parquet(part, index=False)
        part.replace(path)
    except OSError as error:
        raise _refused(path, "a file to write", error) from error
    finally:
        with suppress(OSError):  # it is gone, when all went well
            part.unlink()
    return path


def read(folder: Path) -> Table | None:
    """Read the file; None where there is none. Raises OperationError."""
    import pandas as pd  # noqa: PLC0415 - as above

    path = folder / FILE
    try:
        frame = pd.read_parquet(path)
        about = frame.attrs
        rows: Any = frame[[*COLUMNS]].astype("string").to_dict("records")
        return Table(str(about["version"]), Cutoffs(**about["cutoffs"]), about["coverage"], rows)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        # What is no Parquet file, or not one of ours.
        raise _refused(path, "a file of balances", error) from error


def _refused(path: Path, expected: str, error: Exception) -> OperationError:
    found = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
    return OperationError(f"file {shown(str(path))}", expected=expected, found=str(found)[:200])
