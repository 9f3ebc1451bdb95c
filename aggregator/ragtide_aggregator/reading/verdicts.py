"""The verdict on a release for those who ask for one: which release is meant, and what is said where there is none."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ragtide_schemas import to_milliseconds, utc_now
from ragtide_schemas.headline import clock
from ragtide_schemas.printable import printable
from ragtide_schemas.release import Release
from ragtide_schemas.suggestions import unknown

from ..alerts.watched_release import WatchedRelease, is_compared
from ..errors import UnknownReleaseError
from ..events.keys import VERSION, EstimateKey
from .deployment import Deployment

RECENT: Final = timedelta(hours=1)
"""A version without an answer for so long has no traffic."""

_NOT_WATCHED: Final = "releases are not watched (releases.enabled is false)"


@dataclass(frozen=True, slots=True)
class VerdictQuestion:
    """The release and the limits that somebody asks for."""

    pipeline: str
    """The pipeline."""
    from_version: str | None = None
    """The version that served before; None for that of the newest release."""
    to_version: str | None = None
    """The new version; None for that of the newest release."""
    metrics: Sequence[str] = ()
    """Names of metrics, with or without their family; all unless given."""
    margin: float | None = None
    """Largest loss that `not_worse` allows, in the unit of each metric; that of the settings unless given."""
    alpha: float | None = None
    """Budget, above 0 and at most 0.5; that of the settings unless given."""
    is_open: bool = False
    """Whether only a release counts that has not ended, if no version is given."""

    def __post_init__(self) -> None:
        """Check that it can be answered."""
        if self.from_version is not None and self.from_version == self.to_version:
            raise ValueError(f"from and to are both {printable(self.from_version)!r}: give two versions")

    def means(self, release: WatchedRelease) -> bool:
        """Return whether it asks for a release."""
        if self.from_version is None and self.to_version is None:
            return release.end is None or not self.is_open
        return self.from_version in (None, release.from_version) and self.to_version in (None, release.to_version)


async def read_verdict(
    deployment: Deployment, asked: VerdictQuestion, may_use: Callable[[str], bool] = lambda _: True
) -> Release:
    """Return the newest release that a question means, an open one first where no version is given.

    Versions that are known, and never served at the same time, are not comparable: the record says why.

    Args:
        deployment: read model.
        asked: the question.
        may_use: returns whether the reader may see a pipeline.

    Raises:
        UnknownReleaseError: there is no such pipeline, a version never answered, or there is no release.
        ValueError: a metric is unknown; the message has what was meant.
        CheckpointError: a checkpoint cannot be read.
        DamagedFieldError: a release cannot be read.
    """
    pipeline = asked.pipeline
    releases = await deployment.releases(pipeline) if may_use(pipeline) else []
    # Where both versions began at once, chance decides which is the new one, so the other order is read as well.
    turned = [release.turned() for release in releases] if asked.from_version and asked.to_version else []
    meant = [release for release in (*releases, *turned) if asked.means(release)]
    if (asked.from_version is None) == (asked.to_version is None):
        meant.sort(key=lambda release: release.end is not None)
    if not meant:
        return await _without_release(deployment, asked, releases, may_use)
    release, names = meant[0], asked.metrics or None
    missing: list[str] = []
    if names is not None:
        names, missing = await _known_metrics(deployment, release, names)
    record = record_of(release, metrics=names, margin=asked.margin, alpha=asked.alpha)
    if missing and record.verdict == "not_worse":
        sentence = (
            f"It is undecided whether {printable(record.to_version)} is worse: no value of {missing[0]} came yet."
        )
        return record.model_copy(update={"verdict": "undecided", "sentence": sentence})
    return record


def record_of(
    release: WatchedRelease,
    *,
    metrics: Sequence[str] | None = None,
    margin: float | None = None,
    alpha: float | None = None,
) -> Release:
    """Return a release as it is now; one that ended undecided, because a version has no traffic, is not comparable.

    Args:
        release: as it was read.
        metrics: names of metrics with or without family; all unless given.
        margin: largest loss that `not_worse` allows, in the unit of each metric; that of the settings unless given.
        alpha: budget; that of the settings unless given.

    Raises:
        ValueError: a metric is unknown; the message has what was meant.
    """
    record = release.record(metrics=metrics, margin=margin, alpha=alpha, at_ms=to_milliseconds(utc_now()))
    if release.end != "traffic" or record.verdict != "undecided":
        return record
    silent = int(release.last_ms[1] <= release.last_ms[0])
    version = (release.from_version, release.to_version)[silent]
    return _without_comparison(record, f"{printable(version)} has no traffic any more")


def not_comparable(asked: VerdictQuestion, reason: str) -> Release:
    """Return the record of versions that cannot be compared, without numbers.

    Args:
        asked: the question, which names both versions.
        reason: why, in words.
    """
    names = {"from_version": asked.from_version, "to_version": asked.to_version, "alpha": asked.alpha or 0.05}
    fields = {"pipeline": asked.pipeline, "verdict": "not_comparable", "sentence": "", **names}
    return _without_comparison(Release.model_validate(fields), reason)


def _without_comparison(record: Release, reason: str) -> Release:
    old, new = printable(record.from_version), printable(record.to_version)
    sentence = f"{new} cannot be compared with {old}: {reason}."
    return record.model_copy(update={"verdict": "not_comparable", "reason": reason, "sentence": sentence})


async def _known_metrics(
    deployment: Deployment, release: WatchedRelease, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the names of metrics that a release has, and of those that may still come."""
    present = {row.metric for row in release.record(points=False).metrics}
    known = present | {key.metric for key in await deployment.keys(release.pipeline) if is_compared(key)}
    here: list[str] = []
    missing: list[str] = []
    for name in names:
        (here if present & _meant(name, known) else missing).append(name)
    return here, missing


def _meant(name: str, known: Collection[str]) -> set[str]:
    """Return the metrics of a name with or without its family."""
    meant = {metric for metric in known if name in (metric, metric.rpartition(".")[2])}
    if not meant:
        raise ValueError(unknown("metric that releases compare", name, sorted(known)))
    return meant


async def _without_release(
    deployment: Deployment,
    asked: VerdictQuestion,
    releases: Sequence[WatchedRelease],
    may_use: Callable[[str], bool],
) -> Release:
    pipeline = asked.pipeline
    known = [name for name in await deployment.pipelines() if may_use(name)]
    if pipeline not in known and not releases:
        raise UnknownReleaseError("pipeline", unknown("pipeline", pipeline, known))
    keys = await deployment.keys(pipeline)
    versions = _versions(keys, releases)
    for version in (asked.from_version, asked.to_version):
        if version is not None and version not in versions:
            hint = "" if versions else f": the answers of {printable(pipeline)} have no segment {VERSION}"
            raise UnknownReleaseError("version", unknown("version", version, versions) + hint)
    watches = deployment.settings.releases
    if asked.from_version is None or asked.to_version is None:
        if not watches.enabled:
            raise UnknownReleaseError("release", f"{printable(pipeline)} does not have a release: {_NOT_WATCHED}")
        named = asked.to_version or asked.from_version
        what = f"a release of {printable(named)}" if named else "an open release" if asked.is_open else "a release"
        raise UnknownReleaseError(
            "release",
            f"{printable(pipeline)} does not have {what}: one opens when a second version serves beside another",
        )
    compared = {key.metric for key in keys if is_compared(key)}
    for name in asked.metrics:
        _meant(name, compared)
    asked = replace(asked, alpha=asked.alpha or watches.alpha)
    return not_comparable(asked, await _why(deployment, asked))


def _versions(keys: Sequence[EstimateKey], releases: Sequence[WatchedRelease]) -> list[str]:
    start = f"{VERSION}="
    named = {key.segment.removeprefix(start) for key in keys if key.segment and key.segment.startswith(start)}
    return sorted(named.union(*((release.from_version, release.to_version) for release in releases)))


async def _why(deployment: Deployment, asked: VerdictQuestion) -> str:
    if not deployment.settings.releases.enabled:
        return _NOT_WATCHED
    last: dict[str, datetime] = {}
    for estimate in await deployment.estimates(windows=False, pipeline=asked.pipeline):
        if estimate.segment is not None and estimate.updated_at is not None:
            last[estimate.segment] = max(estimate.updated_at, last.get(estimate.segment, estimate.updated_at))
    for version in (asked.to_version, asked.from_version):
        at = last.get(f"{VERSION}={version}")
        if at is not None and utc_now() - at > RECENT:
            return f"{printable(version or '')} has no traffic, its last answer was at {clock(at)} UTC"
    return "they have no common time, as they never served beside each other"
