r"""Texts for terminals, logs, pages and notebooks: escaped, so that no character controls the output, and bounded.

Control characters (C0, C1) control a terminal, bidirectional controls can make a name look like another, and line and
paragraph separators break lines. Names must not contain them; other text is escaped when it is shown. All other
characters stay, including the zero-width joiner, which emoji and Indic scripts need.
"""

import json
import re
from collections.abc import Iterable
from reprlib import Repr
from typing import Any, Final

STEERING: Final = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Inside of a character class: categories Cc, Zl and Zp, and the twelve characters with the property Bidi_Control."""

BLANKS: Final = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Inside of a character class: white space as `str.isspace` and `str.strip` have it, which `\\s` of no engine is."""

NAME_PATTERN: Final = f"^[^{STEERING}]*$"

SHOWN_CHARS: Final = 60
"""Most characters shown of a field's name, and of its value."""

# Lone surrogates cannot be written as UTF-8 at all.
_UNFIT: Final = re.compile(f"[{STEERING}\\ud800-\\udfff]")


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text in which characters that control a terminal or hide text are escaped.

    Args:
        text: text from outside.
        keep: characters that are not escaped, such as a line feed.

    >>> printable("\x1b[2Jshop\u202e\n")
    '\\x1b[2Jshop\\u202e\\n'
    >>> printable("two\nlines", keep="\n")
    'two\nlines'
    """
    return _UNFIT.sub(lambda match: match[0] if match[0] in keep else repr(match[0])[1:-1], text)


def shortened(text: str) -> str:
    """Return the beginning of a text, for a message."""
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."


def printable_json(value: Any, **options: Any) -> str:
    r"""Return a value as JSON that is safe for a terminal; parsing gives the same value.

    >>> printable_json({"name": "\x9b2J", "city": "Köln"})
    '{"name": "\\u009b2J", "city": "Köln"}'
    """
    return escaped_json(json.dumps(value, ensure_ascii=False, **options))


def escaped_json(text: str) -> str:
    """Return JSON with the same value that is safe for a terminal; line feeds of its layout stay."""
    # The JSON writer has escaped C0 controls in strings, so the remaining ones are white space of the layout.
    return _UNFIT.sub(lambda match: match[0] if match[0] in "\n\t" else f"\\u{ord(match[0]):04x}", text)


REPR_MAX_CHARS: Final = 300
"""Most characters of an object's text."""


class _ShortRepr(Repr):
    def repr_int(self, x: int, level: int) -> str:
        """Return the digits of a number, of which Python writes 4,300 at most."""
        return super().repr_int(x, level) if x.bit_length() < 10_000 else "a number of thousands of digits"


_PARTS: Final = _ShortRepr()
_PARTS.maxlevel = _PARTS.maxtuple = _PARTS.maxlist = _PARTS.maxdict = _PARTS.maxset = 2
_PARTS.maxstring, _PARTS.maxother = 60, 80


def short_value(value: object) -> str:
    """Return the beginning of the `repr` of a value, which is not written as a whole if it is large."""
    if isinstance(value, str):
        return repr(value[: 2 * SHOWN_CHARS])
    return _PARTS.repr(value)


def short_repr(name: str, fields: Iterable[tuple[str | None, object]]) -> str:
    """Return the name and the fields of an object in at most `REPR_MAX_CHARS` characters.

    >>> short_repr("Item", [("id", "i-1"), ("text", "a" * 1000)])
    "Item(id='i-1', text='aaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaa')"
    """
    text = f"{name}("
    for number, (field, value) in enumerate(fields):
        part = _PARTS.repr(value)
        text += f"{', ' if number else ''}{part if field is None else f'{field}={part}'}"
        if len(text) >= REPR_MAX_CHARS:
            return f"{text[: REPR_MAX_CHARS - 2]}…)"
    return f"{text})"
