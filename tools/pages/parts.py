"""Generated parts of hand-written pages.

A part stands between `<!-- generated: NAME -->` and `<!-- /generated -->`.
"""

import re
from typing import Final

END: Final = "<!-- /generated -->"

_PART: Final = re.compile(rf"^(<!-- generated: ([\w-]+) -->)\n.*?^{END}$", re.MULTILINE | re.DOTALL)


def parts_of(page: str) -> list[str]:
    """Return the names of the generated parts of a page, in order."""
    return [name for _, name in _PART.findall(page)]


def with_part(page: str, name: str, text: str) -> str:
    """Return a page with this text as its generated part of this name.

    Raises:
        ValueError: the page has no such part.
    """
    if name not in parts_of(page):
        raise ValueError(
            f"the page has no place for the part {name!r}: write the lines <!-- generated: {name} --> and {END}"
        )
    written = f"\n\n{text.strip()}\n\n{END}"
    return _PART.sub(lambda found: found[1] + written if found[2] == name else found[0], page)
