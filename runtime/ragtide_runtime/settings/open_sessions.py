"""What is said about answers in open sessions, on every screen. A screen in another language translates the texts."""

from typing import Final

from .alerting import ClusterSettings

WAITING: Final = "Answers that wait in open sessions: %(waiting)s."
"""How many answers no interval counts yet."""

CLOSING: Final = (
    "The first answer of a session counts in alert rules at once. The whole session counts in intervals and alert "
    "rules when it has %(size)s answers, or %(quiet)s s after its last one (clusters.size, clusters.quiet_s)."
)
"""When a session counts."""

CLOSING_WHOLE: Final = (
    "A cluster counts in intervals and alert rules when it has %(size)s answers, or %(quiet)s s after its last one "
    "(clusters.size, clusters.quiet_s)."
)
"""When a cluster counts that does not begin with an independent answer."""

WAITING_IN_BLOCK: Final = "Answers that wait in an open block: %(waiting)s."
FILLING: Final = "A block counts in intervals and alert rules when it is full (clusters.block)."


def waiting_texts(clusters: ClusterSettings) -> tuple[str, str]:
    """Return the texts of how many answers wait and when they count, without numbers."""
    if clusters.by == "blocks":
        return WAITING_IN_BLOCK, FILLING
    return WAITING, CLOSING_WHOLE if clusters.by.startswith("segment:") else CLOSING


def closing_places(clusters: ClusterSettings) -> dict[str, str]:
    """Return what stands at the places of the text of when answers count."""
    return {"size": f"{clusters.size:,}", "quiet": f"{clusters.quiet_s:,g}"}


def closing_sentence(clusters: ClusterSettings) -> str:
    """Return when the answers of a session count with these settings.

    >>> closing_sentence(ClusterSettings(size=10, quiet_s=60)).partition(" (")[0].partition(". ")[2]
    'The whole session counts in intervals and alert rules when it has 10 answers, or 60 s after its last one'
    """
    return waiting_texts(clusters)[1] % closing_places(clusters)


def waiting_sentence(waiting: int, clusters: ClusterSettings) -> str:
    """Return how many answers wait in open sessions, and when they count.

    >>> waiting_sentence(1884, ClusterSettings()).partition(". ")[0]
    'Answers that wait in open sessions: 1,884'
    """
    return f"{waiting_texts(clusters)[0] % {'waiting': f'{waiting:,}'}} {closing_sentence(clusters)}"
