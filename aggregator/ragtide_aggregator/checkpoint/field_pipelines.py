"""The pipeline of a field of a checkpoint, by the field's name. No clock, no I/O."""

from collections.abc import Mapping
from json import JSONDecoder
from typing import Final

from ragtide_runtime.redis.keys import CheckpointField

PARTS_BEFORE_KEY: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        (
            CheckpointField.ESTIMATE, CheckpointField.QUANTILES, CheckpointField.DECLARED, CheckpointField.CLUSTERS,
            CheckpointField.CLUSTER_SCOPE, CheckpointField.DEPENDENCE, CheckpointField.SEASON,
            CheckpointField.HISTORY_SERIES, CheckpointField.PAIR, CheckpointField.LEVEL,
            CheckpointField.RELEASE,
        ),
        0,
    ),
    CheckpointField.PROCESSED: 1, CheckpointField.OPEN_CLUSTER: 1, CheckpointField.PANE: 2, CheckpointField.HISTORY: 2,
}  # fmt: skip
"""Number of parts with a colon before the key in the name of a field, by kind."""


_JSON: Final = JSONDecoder()


def pipeline_of_field(name: str) -> str | None:
    """Return the pipeline that the name of a field holds; None for a field of another kind.

    Raises:
        ValueError: the name is no name of its kind.

    >>> pipeline_of_field('pane:60000:7:["shop",null,null,"trace.adherence","ragbench","local","1"]')
    'shop'
    >>> pipeline_of_field('rule_state:["drift","03eb2db1","shop",null,null,"trace.adherence","ragbench","local","1"]')
    'shop'
    """
    kind, colon, rest = name.partition(":")
    kind += colon
    if kind == CheckpointField.RULE_STATE:
        return _strings(rest, 3)[0][2]
    parts = PARTS_BEFORE_KEY.get(kind)
    return None if parts is None else _strings(rest.split(":", parts)[-1], 1)[0][0]


def _strings(text: str, count: int) -> tuple[list[str], int]:
    at = len(text) - len(text.lstrip("["))
    strings: list[str] = []
    while len(strings) < count:
        if text[at : at + 1] != '"':
            raise ValueError(f"{text[:100]} is no list that begins with strings")
        string, end = _JSON.raw_decode(text, at)
        strings.append(string)
        at = end + 1
    return strings, at
