"""The status of a data set on one screen of 80 columns."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Final

from ragtide_offline.datasets.status import ComparedSet
from ragtide_offline.datasets.traits import TraitDifference
from ragtide_offline.datasets.versions import DataSetVersions, Edit, LabeledBy
from ragtide_roles.doctor.finding import count_of
from ragtide_schemas.printable import printable

from . import Column, fitted, out

WIDEST: Final = 80
LISTED: Final = 6
"""Most differences of one kind that are shown; --json has all."""
NAMED: Final = 5
"""Most ids that a sentence names."""

COMMAND: Final = "  ragtide dataset "
"""Begin of a line with a command."""

KINDS: Final = {"segment": "segment values", "length": "lengths", "word": "words", "score": "scores"}


def print_versions(
    name: str, versions: DataSetVersions, edit: Edit | None, *, labeled: LabeledBy, n_rows: int, now: datetime
) -> None:
    """Print which version of a set this is, how old, and who labeled it."""
    _print_lines(_version_sentences(name, versions, edit, labeled=labeled, n_rows=n_rows, now=now))


def _version_sentences(
    name: str, versions: DataSetVersions, edit: Edit | None, *, labeled: LabeledBy, n_rows: int, now: datetime
) -> Iterator[str]:
    last = versions.last
    if last is None:
        yield f"{name}: {count_of(n_rows, 'row')}. It has no versions: no ragtide dataset command wrote it."
    else:
        age = count_of((now - last.made_at).days, "day")
        yield (
            f"{name}: {count_of(n_rows, 'row')}. Version {len(versions.versions)} ({last.digest[:8]}) of "
            f"{last.made_at:%Y-%m-%d}, {age} old."
        )
        changed = f"{count_of(len(last.added), 'row')} added, {len(last.removed):,} removed"
        yield f"{changed} by: {last.command or 'no ragtide dataset command'}"
        if edit is not None:
            parts = [
                f"{count_of(len(ids), 'row')} {what} ({_some(ids)})"
                for ids, what in zip(edit, ("added", "removed", "changed"), strict=True)
                if ids
            ]
            yield f"Edited since then, not by ragtide: {', '.join(parts) or 'the order of the rows'}."
    by = [f"{who} ({count_of(count, 'row')})" for who, count in [*labeled.labelers.items(), *labeled.people.items()]]
    yield f"Labeled by: {', '.join(by) or 'not known'}. Gold scores: {count_of(labeled.gold, 'row')}."


def print_comparison(name: str, against: str | None, compared: ComparedSet, n_rows: int) -> None:
    """Print how a set differs from the traffic, what expired, and which rows to add and to remove."""
    out.print()
    _print_lines(_traffic_sentences(compared, n_rows))
    if compared.certain:
        shown: list[TraitDifference] = []
        for kind in KINDS:
            shown += [gap for gap in compared.certain if gap.trait.kind == kind][:LISTED]
        out.print()
        out.print(fitted(COLUMNS, shown, out.width), highlight=False)
        if len(shown) < len(compared.certain):
            out.print(f"and {len(compared.certain) - len(shown):,} more: --json", highlight=False)
    out.print()
    _print_lines(_row_sentences(name, against, compared))


def _traffic_sentences(compared: ComparedSet, n_rows: int) -> Iterator[str]:
    taken = "" if compared.n_traffic == compared.n_recent else f", {compared.n_traffic:,} of them compared"
    yield (
        f"Traffic: {count_of(compared.n_recent, 'answer')} of {compared.source}, {compared.since:%Y-%m-%d %H:%M} to "
        f"{compared.until:%Y-%m-%d %H:%M} UTC{taken}."
    )
    if compared.weighted and compared.n_compared < n_rows:
        left_out = n_rows - compared.n_compared
        yield f"{count_of(left_out, 'row')} without a probability, put in by hand, count in no comparison."
    if not compared.weighted:
        yield "No row has a probability, so each row counts once."
    counts = Counter(difference.trait.kind for difference in compared.differences)
    looked = ", ".join(f"{count:,} {KINDS[kind]}" for kind, count in counts.items()) or "nothing could be compared"
    certain = len(compared.certain)
    differ = f"{certain:,} certainly {'differs' if certain == 1 else 'differ'}" if certain else "None certainly differs"
    yield f"{differ} ({looked}). All intervals hold together with {compared.confidence:.0%}."


def _interval(gap: TraitDifference) -> str:
    ends = gap.difference
    return f"{ends.estimate:+.3f} ({ends.lower:+.3f} to {ends.upper:+.3f})"


COLUMNS: Final = (
    Column[TraitDifference]("differs", lambda gap: gap.trait.kind),
    Column[TraitDifference]("", lambda gap: gap.trait.name, shortest=14, yields=1),
    Column[TraitDifference]("set", lambda gap: f"{gap.in_set:.3f}", right=True),
    Column[TraitDifference]("traffic", lambda gap: f"{gap.in_traffic:.3f}", right=True),
    Column[TraitDifference]("set - traffic", _interval),
)


def _row_sentences(name: str, against: str | None, compared: ComparedSet) -> Iterator[str]:
    days = f"{compared.expires_after.total_seconds() / 86_400:g} d"
    states = Counter(expiry.state for expiry in compared.expiries)
    yield (
        f"Documents: of {states['in_traffic']:,} rows in the traffic of the last {days}; "
        f"{states['expired']:,} expired, {states['may_have_expired']:,} may have expired, "
        f"{states['not_known']:,} not known."
    )
    for expiry in [expiry for expiry in compared.expiries if expiry.state == "expired"][:NAMED]:
        yield f"  {printable(expiry.row)}: its documents appeared last at {expiry.last_seen:%Y-%m-%d %H:%M} UTC"
    reasons = Counter(expiry.reason for expiry in compared.expiries if expiry.state == "not_known")
    if reasons:
        yield f"Not known, because {'; or '.join(f'{why} ({count:,})' for why, count in reasons.most_common())}."
    if compared.certain:
        ids = [row.answer.key[1] for row in compared.to_add]
        if ids:
            yield f"Add {count_of(len(ids), 'row')} to close the gaps, such as {_some(ids)}:"
            yield f"  {add_command(name, against, compared)}"
        else:
            yield "No answer of this traffic would close the gaps: look at later traffic."
    if compared.to_remove:
        yield f"Remove {count_of(len(compared.to_remove), 'row')}:"
        yield f"  {remove_command(name, against, compared.to_remove)}"


def add_command(name: str, against: str | None, compared: ComparedSet) -> str:
    """Return the command that draws rows that close the gaps, with known probabilities."""
    source = ["--kept"] if against is None else [shlex.quote(against)]
    by = [word for stratum in compared.strata for word in ("--by", shlex.quote(stratum))]
    since = f"{compared.add_since:%Y-%m-%dT%H:%M:%SZ}"
    words = [*source, "--since", since, *by, "--rows", str(len(compared.to_add)), "--add-to", shlex.quote(name)]
    return " ".join(["ragtide dataset draw", *words])


def remove_command(name: str, against: str | None, ids: Sequence[str]) -> str:
    """Return the command that removes rows."""
    remove = f"ragtide dataset remove {shlex.quote(name)}"
    if len(ids) <= NAMED:
        return " ".join([remove, *map(shlex.quote, ids)])
    beside = "" if against is None else f" --against {shlex.quote(against)}"
    return f"ragtide dataset status {shlex.quote(name)}{beside} --json | jq -r '.remove[]' | {remove} -"


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
    return ", ".join(map(printable, ids[:NAMED])) + more


def _print_lines(sentences: Iterator[str]) -> None:
    for sentence in sentences:
        # A command stays in one line, so that it can be copied.
        lines = [sentence] if sentence.startswith(COMMAND) else wrap(sentence, WIDEST, subsequent_indent="  ")
        for line in lines:
            out.print(line, highlight=False, soft_wrap=True)
