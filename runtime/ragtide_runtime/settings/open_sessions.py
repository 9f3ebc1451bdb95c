"""What is said about answers in open sessions, on every screen."""

from .alerting import ClusterSettings


def closing_sentence(clusters: ClusterSettings) -> str:
    """Return when the answers of a session count with these settings.

    >>> closing_sentence(ClusterSettings(size=10, quiet_s=60)).partition(" (")[0].partition(". ")[2]
    'The whole session counts in intervals and alert rules when it has 10 answers, or 60 s after its last one'
    """
    if clusters.by == "blocks":
        return "A block counts in intervals and alert rules when it is full (clusters.block)."
    is_whole = clusters.by.startswith("segment:")  # its cluster does not begin with an independent answer
    first = "" if is_whole else "The first answer of a session counts in alert rules at once. "
    return (
        f"{first}{'A cluster' if is_whole else 'The whole session'} counts in intervals and alert rules when it has "
        f"{clusters.size:,} answers, or {clusters.quiet_s:,g} s after its last one (clusters.size, clusters.quiet_s)."
    )


def waiting_sentence(waiting: int, clusters: ClusterSettings) -> str:
    """Return how many answers wait in open sessions, and when they count.

    >>> waiting_sentence(1884, ClusterSettings()).partition(". ")[0]
    'Answers that wait in open sessions: 1,884'
    """
    place = "an open block" if clusters.by == "blocks" else "open sessions"
    return f"Answers that wait in {place}: {waiting:,}. {closing_sentence(clusters)}"
