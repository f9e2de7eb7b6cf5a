"""What both stores refuse, in the same words; and texts for people as both of them keep them."""

from __future__ import annotations

from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import AlreadyLanded, Held, InputError
from amends_pipeline.ports import Landed, Unit


def held(unit: Unit, role: str, holder: str) -> Held:
    """The error for a lock that somebody holds."""
    found = f"it held by {shown(holder)}"
    return Held(f"{role} of {unit}", expected="its lock to be free", found=found)


def is_current(namespace: str, source: str) -> InputError:
    """The error for removing the namespace that readers see."""
    return InputError(
        f"namespace {namespace}",
        expected="one that is not current",
        found=f"the one that readers of source {source} see",
    )


def already_landed(landing: Landed, name: str, landed_at: str) -> AlreadyLanded:
    """The error for a file whose bytes were appended before, as `name` at `landed_at`."""
    return AlreadyLanded(
        f"file {shown(landing.name)} for source {landing.source}",
        expected="bytes that were not appended yet",
        found=f"those of {shown(name)}, appended at {landed_at}",
    )


def storable(text: str) -> str:
    """A text for people, as a database can store it: no U+0000, no lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
