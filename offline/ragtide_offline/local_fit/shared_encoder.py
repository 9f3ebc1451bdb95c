"""The one sentence encoder of a file: all its numbers that read an encoder must read the same."""

from collections.abc import Iterable
from typing import Final

from ragtide_consumers.labelers.local.correction_file import FittedProxy, FittedScore
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.metric_definitions import SIMILARITY

_INPUTS: Final = frozenset(metric.name for metric in SIMILARITY)


def encoder_of(parts: Iterable[tuple[FittedScore | FittedProxy, str]]) -> str:
    """Return the digest of the sentence encoder that the numbers of a file read; empty if none reads one.

    Args:
        parts: scores and proxies, each with the digest of the encoder that it was fitted with.

    Raises:
        ConfigurationError: they read different encoders.
    """
    found = list(dict.fromkeys(digest for fitted, digest in parts if _INPUTS.intersection(fitted.inputs)))
    if len(found) > 1:
        raise ConfigurationError(
            f"the file has numbers of the sentence encoder {found[0][:16]}, and the new ones are of {found[1][:16]}: "
            "set models.similarity to the first, or give another --output"
        )
    return found[0] if found else ""
