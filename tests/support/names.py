"""Names as the schema admits them, for property-based tests."""

from hypothesis import strategies as st

BIDI_CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""The characters with the Unicode property Bidi_Control."""

NAME_CHARACTERS = st.characters(
    codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters=BIDI_CONTROLS
)
"""Characters that a name may contain."""
