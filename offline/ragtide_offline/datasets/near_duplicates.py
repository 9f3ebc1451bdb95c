"""Groups texts that are nearly equal, by MinHash: in time and memory in proportion to the number of texts.

Two texts are near duplicates if the sets of their pieces of five characters agree in `ALIKE` of all pieces, as MinHash
estimates it. A text joins the group of an earlier text, and is not compared with the others of that group.

Source: Broder (1997), "On the resemblance and containment of documents"; the library datasketch.
"""

from collections.abc import Sequence
from typing import Any, Final

from ragtide_runtime.errors import ConfigurationError

ALIKE: Final = 0.8
"""Least estimated share of common pieces of two near duplicates."""

PIECE_CHARS: Final = 5
"""Characters of a piece; languages that write no spaces have words of this length, too."""

MOST_CHARS: Final = 2_000
"""Characters of a text that are compared."""

MOST_COMPARED: Final = 20
"""Most earlier texts with which a text is compared. A text that resembles more of them is not remembered, so that many
texts that are nearly near duplicates take linear time, too; a near duplicate of it may then be missed."""

_PERMUTATIONS: Final = 128

INSTALL: Final = (
    "near duplicates are found by datasketch, which is not installed: pip install 'ragtide[draw]', or give "
    "--keep-duplicates"
)


def duplicate_groups(texts: Sequence[str]) -> list[int]:
    """Return the number of the group of each text; near duplicates have one number.

    The groups depend on the order of the texts.

    Args:
        texts: of any length, of which the first `MOST_CHARS` characters count.

    Raises:
        ConfigurationError: datasketch is not installed.
    """
    try:
        from datasketch import MinHash, MinHashLSH  # noqa: PLC0415 - in an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name != "datasketch":
            raise
        raise ConfigurationError(INSTALL) from None
    index = MinHashLSH(threshold=ALIKE, num_perm=_PERMUTATIONS)
    empty = MinHash(num_perm=_PERMUTATIONS)
    sketches: dict[int, Any] = {}
    by_text: dict[str, int] = {}
    groups: list[int] = []
    for number, text in enumerate(texts):
        plain = " ".join(text[: 2 * MOST_CHARS].casefold().split())[:MOST_CHARS]
        group = by_text.get(plain)
        if group is None:
            sketch = empty.copy()
            places = range(max(len(plain) - PIECE_CHARS + 1, 1))
            sketch.update_batch(sorted({plain[at : at + PIECE_CHARS].encode(errors="replace") for at in places}))
            near = sorted(index.query(sketch))
            alike = (other for other in near[:MOST_COMPARED] if sketch.jaccard(sketches[other]) >= ALIKE)
            group = next(alike, number)
            if group == number and len(near) <= MOST_COMPARED:
                index.insert(number, sketch)
                sketches[number] = sketch
            by_text[plain] = group
        groups.append(group)
    return groups
