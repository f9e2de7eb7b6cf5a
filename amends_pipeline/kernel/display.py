"""Text from strangers, made safe to show.

Identifiers, file names and quarantined bytes come from outside. Shown as they are, they could move
a terminal's cursor, turn the reading direction around, or write markup of their own. One rule
serves all forms: a character that Python does not call printable is written as its escape. That
covers controls, line ends, bidirectional and zero-width marks, lone surrogates, and blanks other
than U+0020.
"""

from __future__ import annotations

import html
import re

SHOWN_LENGTH = 120
"""Characters of a value that `shown` keeps before it says how many there were."""

_MARKDOWN_ALWAYS = re.compile(r"[\\`*_{}\[\]()<>#|~&!@$]")
_MARKDOWN_LINK = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)
_MARKDOWN_LEADING = re.compile(r"\A(?:[-+=]|[0-9]+(?=\.))")


def escape_terminal(text: str) -> str:
    """Return `text` on one line, without characters that act on a terminal.

    Backslashes of the text itself stay single, so that the function applied twice changes nothing.
    Where exactness matters more (a backslash and an `n`, or a line end?) use `shown`.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else _escape(character) for character in text
    )


def shown(value: object) -> str:
    """Return a value from outside as a short quoted text for a message.

    Text is quoted and its backslashes doubled, so that two different texts never look the same
    unless they are cut. Anything else is shown by its `repr`. At most `SHOWN_LENGTH` characters of
    the value are kept.
    """
    if isinstance(value, str):
        kept = value[:SHOWN_LENGTH]
        quoted = escape_terminal(kept.replace("\\", "\\\\").replace('"', '\\"'))
        return f'"{quoted}"{_more(len(value))}'
    text = escape_terminal(_safe_repr(value))
    return f"{text[:SHOWN_LENGTH]}{_more(len(text))}"


def escape_markdown(text: str) -> str:
    """Return `text` so that CommonMark with tables shows it as it is, in a cell or a paragraph."""
    escaped = _MARKDOWN_ALWAYS.sub(r"\\\g<0>", escape_terminal(text))
    escaped = _MARKDOWN_LINK.sub(r"\\\g<0>", escaped)
    if escaped.startswith(" "):
        # Four leading blanks would make a code block; one written as a reference does not count.
        return f"&#32;{escaped[1:]}"
    leading = _MARKDOWN_LEADING.match(escaped)
    if leading is None:
        return escaped
    marker = leading.group()
    if marker.isdigit():
        return f"{marker}\\{escaped[len(marker) :]}"
    return f"\\{escaped}"


def escape_html(text: str) -> str:
    """Return `text` for the content or a quoted attribute of HTML or SVG."""
    return html.escape(escape_terminal(text), quote=True)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _more(length: int) -> str:
    return f"... ({length} characters)" if length > SHOWN_LENGTH else ""


def _safe_repr(value: object) -> str:
    """Show an integer too long for Python to print by its size: printing it raises."""
    if isinstance(value, int) and value.bit_length() > _PRINTED_BITS:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


_PRINTED_BITS = 1_024
