from __future__ import annotations

import html
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from amends_pipeline.kernel.display import (
    SHOWN_LENGTH,
    escape_html,
    escape_markdown,
    escape_terminal,
    shown,
)

HOSTILE = st.text(st.sampled_from("ab1 \\`*_{}[]()#+-.!|<>~&@$:/w=\"'\n\t\x1b\u202e\u200bé😀"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DEPOT-A", "DEPOT-A"),
        ("Café 😀", "Café 😀"),
        ("", ""),
        ("clear\x1b[2Jscreen", r"clear\x1b[2Jscreen"),
        ("two\nlines\r", r"two\nlines\r"),
        ("tab\tnul\x00", r"tab\tnul\x00"),
        ("\x7f\x9b1m", r"\x7f\x9b1m"),
        ("evil\u202etxt.exe", r"evil\u202etxt.exe"),
        ("\u2066a\u2069", r"\u2066a\u2069"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("line\u2028separator", r"line\u2028separator"),
        ("no\u00a0break", r"no\xa0break"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("lone \ud800", r"lone \ud800"),
        ("back\\slash", "back\\slash"),
    ],
)
def test_terminal_text_keeps_what_prints_and_escapes_the_rest(text, expected):
    assert escape_terminal(text) == expected


@given(st.text(st.characters(exclude_categories=[])))
def test_terminal_text_is_one_printable_line_and_stays_as_it_is(text):
    escaped = escape_terminal(text)
    assert escaped.isprintable()
    assert escape_terminal(escaped) == escaped
    assert "\n" not in escaped


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", '"plain"'),
        ('say "x"', r'"say \"x\""'),
        ("a\\n", r'"a\\n"'),
        ("a\n", r'"a\n"'),
        (7, "7"),
        (None, "None"),
        (1.5, "1.5"),
        (["\x1b"], r"['\x1b']"),
        ("x" * 121, '"' + "x" * 120 + '"... (121 characters)'),
        ([0] * 1000, ("[" + "0, " * 1000)[:120] + "... (3000 characters)"),
        pytest.param(10**5000, "an integer of 16610 bits", id="an integer that print refuses"),
    ],
)
def test_a_shown_value_is_short_and_exact(value, expected):
    assert shown(value) == expected


@given(st.text(max_size=SHOWN_LENGTH), st.text(max_size=SHOWN_LENGTH))
def test_two_texts_that_are_not_cut_never_look_the_same(one, other):
    assert (shown(one) == shown(other)) == (one == other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DEPOT-A", "DEPOT-A"),
        ("a|b", r"a\|b"),
        ("`code`", r"\`code\`"),
        ("<b>&amp;", r"\<b\>\&amp;"),
        ("two\nlines", r"two\\nlines"),
        ("[x](http://h)", r"\[x\]\(http\://h\)"),
        ("www.example.com", r"www\.example.com"),
        ("a@b.c", r"a\@b.c"),
        ("- item", r"\- item"),
        ("12. item", r"12\. item"),
        ("12 items.", "12 items."),
        ("# head", r"\# head"),
        ("    code", "&#32;   code"),
        ("10:00", "10:00"),
    ],
)
def test_markdown_text_carries_no_markup(text, expected):
    assert escape_markdown(text) == expected


@given(HOSTILE)
def test_a_markdown_paragraph_reads_as_the_text_itself(text):
    rendered = (
        MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(escape_markdown(text))
    )
    tags = re.findall(r"<[^>]*>", rendered)
    assert tags in ([], ["<p>", "</p>"])
    content = html.unescape(re.sub(r"<[^>]*>", "", rendered))
    assert content.rstrip() == escape_terminal(text).rstrip()


@given(HOSTILE)
def test_a_markdown_table_keeps_its_cells(text):
    table = f"| a | b |\n| --- | --- |\n| {escape_markdown(text)} | right |\n"
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(table)
    cells = re.findall(r"<td>(.*?)</td>", rendered)
    shown_cells = [html.unescape(cell).strip() for cell in cells]
    assert shown_cells == [escape_terminal(text).strip(), "right"]


@given(st.text(st.characters(exclude_categories=[])))
def test_markup_around_html_text_stays_whole(text):
    escaped = escape_html(text)
    root = ET.fromstring(f'<svg title="{escaped}"><text>{escaped}</text></svg>')  # noqa: S314 - our own text
    assert root.get("title") == escape_terminal(text)
    assert (root[0].text or "") == escape_terminal(text)


def test_html_text_escapes_both_quotes():
    assert escape_html("<a href='x'>\"&\n") == r"&lt;a href=&#x27;x&#x27;&gt;&quot;&amp;\n"
