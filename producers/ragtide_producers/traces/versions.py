"""The version of the application that answered, from the attributes by which traces name it."""

import re
from collections.abc import Sequence
from typing import Any, Final

from ragtide_runtime.settings.ingest import FROM_KNOWN, OFF

from .attributes import first
from .tree import Node

VERSION: Final = "version"
"""The segment with the version of the application."""
RESOURCE_NAMES: Final = (
    "service.version", "vcs.ref.head.revision", "vcs.repository.ref.revision", "git.commit.sha", "git.sha",
)  # fmt: skip
"""Attributes of a resource that name the version, the preferred first. On a span they may describe what it works on."""
SPAN_NAMES: Final = ("langfuse.release", "langsmith.metadata.revision_id")
"""Attributes of a span or its resource that name the version, after those of the resource."""
CHARS_MAX: Final = 100
"""Most characters of a version; a longer text is none."""

_VERSION: Final = re.compile(r"\w[\w.+:/@~-]*")
_NOTHING: Final = re.compile(r"(?:unknown.*|undefined|null|none|nil|n/a|head|latest|0\.0\.0)", re.IGNORECASE)
_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[1-8][0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.IGNORECASE)


def version_in(value: Any) -> str | None:
    """Return the version that the value of an attribute names; None if it names none.

    Names without a version are placeholders (`unknown_service`, `0.0.0`, `latest`), ids that are other in each process
    (UUIDs), addresses, which may hold a secret, texts with white space, and all of more than `CHARS_MAX` characters.

    >>> version_in("2026.11.1"), version_in("9d59409acf479dfa0df1aa568182e43e43df8bbe"), version_in(7)
    ('2026.11.1', '9d59409acf479dfa0df1aa568182e43e43df8bbe', '7')
    >>> version_in("unknown"), version_in("0f8fad5b-d9cb-469f-a165-70867728950e"), version_in("https://me:pw@host/v1")
    (None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).strip()
    if len(text) > CHARS_MAX or not _VERSION.fullmatch(text) or "://" in text:
        return None
    return None if _NOTHING.fullmatch(text) or _UUID.fullmatch(text) else text


def version_of(nodes: Sequence[Node], version_from: str) -> str | None:
    """Return the version of the application that answered; None if the trace names none.

    By itself only the service of the question is asked: a gateway above it and a search below it have versions of
    their own. A named attribute is looked for on every span, and taken as it is.

    Args:
        nodes: the span of the question first, then those above it, then its model calls and its retrievals.
        version_from: the setting `ingest.version_from`.
    """
    if version_from == OFF:
        return None
    if version_from != FROM_KNOWN:
        places = (place for node in nodes for place in (node.span.attributes, node.span.resource))
        value = next((value for place in places if (value := first(place, [version_from])) is not None), None)
        return None if value is None else str(value)
    service = nodes[0].span.resource.get("service.name")
    own = [node.span for node in nodes if node.span.resource.get("service.name") == service]
    given = (
        *(span.resource.get(name) for name in RESOURCE_NAMES for span in own),
        *(place.get(name) for name in SPAN_NAMES for span in own for place in (span.attributes, span.resource)),
    )
    return next((version for value in given if (version := version_in(value)) is not None), None)
