r"""Text from outside, made fit for a terminal, a log or a page: characters that steer are shown, never obeyed.

A terminal obeys control characters (C0, C1), a bidirectional control lets a name pose as another, and a line or
paragraph separator ends a line where none ends. Names must not hold them; other text is escaped where it is shown. All
other characters stay, among them the zero-width joiner that emoji and Indic scripts need.
"""

import json
import re
from typing import Any, Final

STEERING: Final = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Inside of a character class: categories Cc, Zl and Zp, and the twelve characters with the property Bidi_Control."""

NAME_PATTERN: Final = f"^[^{STEERING}]*$"

# Lone surrogates cannot be written as UTF-8 at all.
_UNFIT: Final = re.compile(f"[{STEERING}\\ud800-\\udfff]")


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text with every character that controls a terminal or hides text written as an escape.

    Args:
        text: from outside.
        keep: characters that stay, such as a line feed where lines are meant.

    >>> printable("\x1b[2Jshop\u202e\n")
    '\\x1b[2Jshop\\u202e\\n'
    >>> printable("two\nlines", keep="\n")
    'two\nlines'
    """
    return _UNFIT.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def printable_json(value: Any, **options: Any) -> str:
    r"""Return a value as JSON that is fit for a terminal; a program that parses it reads the same value.

    >>> printable_json({"name": "\x9b2J", "city": "Köln"})
    '{"name": "\\u009b2J", "city": "Köln"}'
    """
    return escaped_json(json.dumps(value, ensure_ascii=False, **options))


def escaped_json(text: str) -> str:
    """Return JSON with the same value, fit for a terminal; line feeds between its parts stay."""
    # The JSON writer has escaped the C0 controls in strings: the ones that are left are white space of its layout.
    return _UNFIT.sub(lambda found: found[0] if found[0] in "\n\t" else f"\\u{ord(found[0]):04x}", text)


def _escape(character: str) -> str:
    return repr(character)[1:-1]
