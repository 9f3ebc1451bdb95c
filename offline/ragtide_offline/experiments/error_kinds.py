"""Groups errors by kind: two errors are of one kind if their messages differ only in the values that they quote."""

import re
from typing import Final

LONGEST: Final = 500
"""Characters of a message that are compared."""

_VALUES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d+(?:\.\d+)?")
_GOT: Final = re.compile(r"\(got [^;]*")


def kind_of(message: str) -> str:
    """Return a message without the values that it quotes; it is equal for all errors of one kind.

    >>> kind_of("row 7: year is 'x' (got 'x')") == kind_of("row 12: year is 'why' (got 'why')")
    True
    """
    return _VALUES.sub("…", _GOT.sub("", message[:LONGEST]))
