"""The releases of a state: versions of a pipeline that serve at the same time, and the alerts about them.

An answer is an interaction that was scored, and its version is its value of the segment `version`. A release opens with
an answer of a version that does not serve yet, while another one serves. A version that counts as `other`, because its
pipeline has reached its cap on keys, is none. Everything follows the order of the answers. No clock, no I/O.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Alert, from_milliseconds
from ragtide_schemas.alert_kinds import Movement
from ragtide_schemas.release import RELEASE_RULE, WORSE_RULE, Release, ReleaseEnd

from ..alerts.served_versions import SILENT_MS, ServedVersions
from ..alerts.watched_release import ReleaseOptions, WatchedRelease, is_compared
from ..events.batch import EventBatch, Scope
from ..events.keys import HIDDEN, LATENCY, VERSION, EstimateKey
from ..statistics.tables.batches import Rows
from ..statistics.tables.row_table import RowColumn, RowTable
from .options import OTHER
from .rows import AddedBatch, ClosedClusters, KeyRows, StatePart

MOST_OPEN: Final = 3
"""Most open releases of a pipeline."""

ENDED_KEPT: Final = 10
"""Releases of a pipeline that are kept after their end, the newest."""

MOST_FORMS: Final = 20_000
"""Most combinations of rows whose keys are remembered."""

_PREFIX: Final = f"{VERSION}="
_OPENED_METRIC: Final = "release.answers"


class _VersionRows(RowTable):
    # Of a row of a live version, or of its metric that releases compare, its code; else -1.
    version = RowColumn(np.intp, fill=-1, stored=False)
    compared = RowColumn(np.intp, fill=-1, stored=False)
    # Of a row that has a value for each answer of a live pipeline, the code of the pipeline; else -1.
    answered = RowColumn(np.intp, fill=-1, stored=False)


class _Version(NamedTuple):
    pipeline: int
    name: str


class _Form(NamedTuple):
    """What the values of a part are, by their rows."""

    places: Rows
    """Of the compared values, among the values of the part."""
    keys: list[EstimateKey]
    """Their keys, without scope."""
    stratum: int


class _VersionedPipeline:
    """The versions of a pipeline and their releases."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.codes: dict[str, int] = {}
        """Code of each version."""
        self.served = ServedVersions()
        self.is_known = False
        """Whether a checkpoint has its versions."""
        self.open: list[WatchedRelease] = []
        self.ended: list[WatchedRelease] = []

    @property
    def compared(self) -> list[str]:
        return [name for release in self.open for name in (release.from_version, release.to_version)]

    @property
    def field(self) -> str:
        return CheckpointField.RELEASE + _text([self.name])


class ReleaseRows(StatePart):
    """The releases of a state.

    Args:
        options: how releases are watched.
        rows: of the state.
        book: takes the alerts.
        origin: makes alert ids of a split pipeline different in each partition.
        clustered: returns pipelines and runs whose interactions count in clusters.
    """

    kinds = (CheckpointField.RELEASE,)

    def __init__(
        self,
        options: ReleaseOptions,
        rows: KeyRows,
        book: AlertBook,
        origin: str,
        clustered: Callable[[], Collection[Scope]],
    ) -> None:
        self._options, self._rows, self._book = options, rows, book
        self._origin, self._clustered = origin, clustered
        self._table = _VersionRows()
        self._pipelines: list[_VersionedPipeline] = []
        self._numbers: dict[str, int] = {}
        self._versions: list[_Version] = []
        self._forms: dict[bytes, _Form] = {}
        # Pipelines whose versions changed since the last commit, and releases.
        self._changed: set[_VersionedPipeline] = set()
        self._news: set[WatchedRelease] = set()
        self._gone: list[str] = []
        # Numbers of pipelines with open releases.
        self._opened: set[int] = set()
        self.opened = 0
        """Releases that opened, or were loaded: with each of them a field is new."""

    def add_keys(self, row: int, keys: Sequence[EstimateKey]) -> None:
        """Take note of the rows of versions, and of those that count answers."""
        self._table.add_rows(len(keys))
        for place, key in enumerate(keys, row):
            if key.run is not None:
                continue
            if key.segment is None:
                if key.metric == LATENCY:
                    self._table.answered[place] = self._number(key.pipeline)
            elif key.segment.startswith(_PREFIX) and key.segment != _PREFIX + OTHER:
                code = self._code(key.pipeline, key.segment.removeprefix(_PREFIX))
                self._table.version[place] = code
                if is_compared(key) and not key.metric.startswith(HIDDEN):
                    self._table.compared[place] = code

    def _number(self, pipeline: str) -> int:
        if pipeline not in self._numbers:
            self._numbers[pipeline] = len(self._pipelines)
            self._pipelines.append(_VersionedPipeline(pipeline))
        return self._numbers[pipeline]

    def _code(self, pipeline: str, version: str) -> int:
        number = self._number(pipeline)
        known = self._pipelines[number]
        if version not in known.codes:
            known.codes[version] = len(self._versions)
            self._versions.append(_Version(number, version))
            self._changed.add(known)
        return known.codes[version]

    def take(self, added: AddedBatch) -> None:
        """Take the answers, scores and closed clusters of pipelines with versions."""
        if not self._versions:
            return
        batch, closed = added.batch, _Closed(self._table.compared, added.closed)
        answered = self._table.answered[batch.rows]
        places = np.flatnonzero(answered >= 0)
        parts, answered = batch.part_of[places], answered[places]
        versions = np.full(batch.places.size, -1, dtype=np.intp)
        for rows, part_of in ((batch.absent, batch.absent_of), (batch.rows, batch.part_of)):
            codes = self._table.version[rows]
            known = codes >= 0
            versions[part_of[known]] = codes[known]
        # An answer that is late says nothing about the present.
        timely = batch.times_ms > batch.newest_ms - SILENT_MS
        parts, answered = parts[timely[parts]], answered[timely[parts]]
        answering = {number for number in np.unique(answered).tolist() if self._pipelines[number].codes}
        for number in sorted(answering | self._opened):
            mine = parts[answered == number]
            self._take(self._pipelines[number], batch, mine, np.where(timely, versions, -1), closed)
            (self._opened.add if self._pipelines[number].open else self._opened.discard)(number)

    def _take(
        self, pipeline: _VersionedPipeline, batch: EventBatch, answers: Rows, versions: Rows, closed: "_Closed"
    ) -> None:
        served, codes = pipeline.served, versions[answers]
        if answers.size:
            self._changed.add(pipeline)
        if not pipeline.open:
            names = {code: self._versions[code].name for code in np.unique(codes).tolist() if code >= 0}
            if served.add_all(names, codes, batch.times_ms[answers]):
                return
        own, of_answers = list(pipeline.codes.values()), set(answers.tolist())
        parts = of_answers.union(closed.parts_of(own))
        by_itself = (pipeline.name, None) not in self._clustered()
        if by_itself:
            parts.update(np.flatnonzero(np.isin(versions, own)).tolist())
        times_ms, newest_ms = batch.times_ms.tolist(), np.maximum(batch.newest_ms, batch.times_ms).tolist()
        of_parts, starts = versions.tolist(), batch.starts.tolist()
        for part in sorted(parts):
            version = self._versions[of_parts[part]].name if of_parts[part] >= 0 else None
            if part in of_answers:
                self._answer(pipeline, version, times_ms[part], newest_ms[part])
            if pipeline.open:
                self._take_closed(pipeline, closed.at(part))
                if by_itself and version is not None:
                    values = slice(starts[part], starts[part + 1])
                    self._take_part(pipeline, batch, values, version, times_ms[part])

    def _answer(self, pipeline: _VersionedPipeline, version: str | None, time_ms: int, now_ms: int) -> None:
        served = pipeline.served
        main = None
        if version is not None and not served.serves(version, now_ms) and len(pipeline.open) < MOST_OPEN:
            main = served.main(now_ms, but=version)
        served.add(version, time_ms, kept=pipeline.compared)
        opened = None
        if main is not None and version is not None:
            opened = self._open(pipeline, main, version, time_ms)
        for release in [*pipeline.open]:
            old, new = release.from_version, release.to_version
            if version is not None and version in (old, new):
                release.count(second=version == new, time_ms=time_ms)
                self._news.add(release)
            if not (served.serves(old, now_ms) and served.serves(new, now_ms)):
                self._end(pipeline, release, "traffic", time_ms)
            elif release.is_over(now_ms):
                self._end(pipeline, release, "time", time_ms)
        if opened is not None:
            self._fire(RELEASE_RULE, opened)

    def _take_part(
        self, pipeline: _VersionedPipeline, batch: EventBatch, values: slice, version: str, time_ms: int
    ) -> None:
        form = self._form(batch.rows[values])
        if not form.keys:
            return
        scores = [*zip(form.keys, batch.values[values][form.places].tolist(), strict=True)]
        for release in pipeline.open:
            if version in (release.from_version, release.to_version) and time_ms >= release.opened_ms:
                second = version == release.to_version
                release.take(second=second, stratum=form.stratum, values=scores, time_ms=time_ms)
                self._decide(release, time_ms)

    def _form(self, rows: Rows) -> _Form:
        name = rows.tobytes()
        form = self._forms.get(name)
        if form is None:
            keys = [self._rows.keys[row] for row in rows.tolist()]
            places = np.flatnonzero(self._table.compared[rows] >= 0)
            own = [keys[place].unscoped for place in places.tolist()]
            first = own[0] if own else None
            segments = [key.segment for key in keys if key.unscoped == first]
            if len(self._forms) >= MOST_FORMS:
                self._forms.clear()
            form = self._forms[name] = _Form(places, own, _stratum(segments))
        return form

    def _take_closed(self, pipeline: _VersionedPipeline, clusters: "Sequence[_VersionCluster]") -> None:
        for cluster in clusters:
            for release in pipeline.open:
                old, new = (pipeline.codes.get(name, -1) for name in (release.from_version, release.to_version))
                # A session from before the release says nothing about it.
                if cluster.time_ms >= release.opened_ms and cluster.codes & {old, new}:
                    self._take_session(release, cluster, old, new)
                    self._decide(release, cluster.time_ms)

    def _take_session(self, release: WatchedRelease, cluster: "_VersionCluster", old: int, new: int) -> None:
        sides: dict[int, dict[EstimateKey, tuple[float, int]]] = {old: {}, new: {}}
        for code, row, size, total in cluster.values:
            if code in sides:
                sides[code][self._rows.keys[row].unscoped] = min(total / size, 1.0), size
        both = [key for key in sides[old] if key in sides[new]]
        for second, code in enumerate((old, new)):
            values = [(key, mean) for key, (mean, _) in sides[code].items() if key not in both]
            if values:
                stratum = self._stratum_of(cluster)
                release.take(second=bool(second), stratum=stratum, values=values, time_ms=cluster.time_ms)
        if both:
            pairs = [(key, *sides[new][key], *sides[old][key]) for key in both]
            means = [(key, after, before, (n_after, n_before)) for key, after, n_after, before, n_before in pairs]
            release.take_session(values=means, time_ms=cluster.time_ms)

    def _stratum_of(self, cluster: "_VersionCluster") -> int:
        # Segment values that all answers of the session have.
        first = self._rows.keys[cluster.values[0][1]].unscoped
        rows = [(self._rows.keys[row], size) for row, size in cluster.rows]
        of_metric = [(key.segment, size) for key, size in rows if key.unscoped == first]
        whole = max(size for _, size in of_metric)
        return _stratum([segment for segment, size in of_metric if size == whole])

    def _decide(self, release: WatchedRelease, time_ms: int) -> None:
        self._news.add(release)
        if not release.decide(time_ms):
            return
        if release.verdict == "worse":
            self._fire(WORSE_RULE, release)
        else:
            self._resolve(RELEASE_RULE, release, time_ms)

    def _open(self, pipeline: _VersionedPipeline, from_version: str, to_version: str, time_ms: int) -> WatchedRelease:
        release = WatchedRelease(pipeline.name, from_version, to_version, time_ms, self._options)
        pipeline.open.append(release)
        pipeline.open.sort(key=_age)
        self.opened += 1
        return release

    def _fire(self, rule: str, release: WatchedRelease) -> None:
        self._book.fire(_alert_name(rule, release), lambda: self._alert(rule, release))

    def _end(self, pipeline: _VersionedPipeline, release: WatchedRelease, end: ReleaseEnd, time_ms: int) -> None:
        release.finish(end, time_ms)
        pipeline.open.remove(release)
        pipeline.ended.append(release)
        pipeline.ended.sort(key=_age)
        self._news.add(release)
        for rule in (RELEASE_RULE, WORSE_RULE):
            self._resolve(rule, release, time_ms)
        for old in pipeline.ended[:-ENDED_KEPT]:
            self._news.discard(old)
            self._gone.append(_field(old))
        del pipeline.ended[:-ENDED_KEPT]

    def _resolve(self, rule: str, release: WatchedRelease, time_ms: int) -> None:
        if _alert_name(rule, release) in self._book:
            record = release.record(points=False)
            self._book.end(_alert_name(rule, release), time_ms, record.sentence, record)

    def _alert(self, rule: str, release: WatchedRelease) -> Alert:
        record = release.record(points=False)
        name = [self._origin, release.pipeline, release.from_version, release.to_version]
        digest = hashlib.sha256(_text(name).encode()).hexdigest()[:12]
        is_worse = rule == WORSE_RULE
        moved_ms = release.decided_ms if is_worse else None
        return Alert(
            alert_id=f"{'release-worse' if is_worse else 'release'}-{digest}-{release.opened_ms}",
            status="firing",
            rule=rule,
            kind="release",
            severity=self._options.severity if is_worse else "info",
            pipeline=release.pipeline,
            metric=(is_worse and release.decided_by) or _OPENED_METRIC,
            direction=_direction(record, release.decided_by),
            fired_at=from_milliseconds(release.opened_ms if moved_ms is None else moved_ms),
            release=record,
            message=record.sentence,
        )

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the versions and releases that changed, and the names of releases that are no longer kept."""
        fields = {pipeline.field: pipeline.served.to_bytes() for pipeline in self._changed}
        fields |= {_field(release): release.to_bytes() for release in self._news}
        gone, self._gone = self._gone, []
        self._changed.clear()
        self._news.clear()
        return fields, gone

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        pipeline, *rest = json.loads(name)
        known = self._pipelines[self._number(pipeline)]
        if not rest:
            known.served, known.is_known = ServedVersions.from_bytes(data), True
            self._changed.discard(known)
            return True
        release = WatchedRelease.from_bytes(data, self._options)
        (known.open if release.ended_ms is None else known.ended).append(release)
        self.opened += 1
        return True

    def complete(self) -> None:
        """Begin with the versions in the counts of a checkpoint that an older release of ragtide wrote."""
        for number, pipeline in enumerate(self._pipelines):
            if pipeline.open:
                self._opened.add(number)
            pipeline.open.sort(key=_age)
            pipeline.ended.sort(key=_age)
            if pipeline.codes and not pipeline.is_known:
                n, updated_ms = self._counts(pipeline.codes)
                pipeline.served.begin(n, updated_ms, self._rows.newest_ms(pipeline.name, None) or 0)
                pipeline.is_known = True

    def _counts(self, codes: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        of_row, moments = self._table.version[: len(self._rows)], self._rows.moments
        rows = {version: np.flatnonzero(of_row == code) for version, code in codes.items()}
        n = {version: max(moments.n(row) for row in mine.tolist()) for version, mine in rows.items()}
        return n, {version: int(self._rows.updated_ms[mine].max()) for version, mine in rows.items()}


class _VersionCluster(NamedTuple):
    """A closed cluster with compared values of versions."""

    time_ms: int
    codes: set[int]
    """Of its versions."""
    values: list[tuple[int, int, int, float]]
    """Version, row, number and sum of the values of versions that are compared."""
    rows: list[tuple[int, int]]
    """Every row with the number of its values."""


class _Closed:
    """The clusters that a batch closed, by the part that closed them."""

    def __init__(self, compared: Rows, closed: ClosedClusters | None) -> None:
        self._closed = closed
        self._codes = np.zeros(0, dtype=np.intp) if closed is None else compared[closed.rows]
        self._by_part: dict[int, list[_VersionCluster]] | None = None

    def parts_of(self, codes: Collection[int]) -> list[int]:
        """Return the parts that closed a cluster with values of versions."""
        if self._closed is None:
            return []
        parts: list[int] = self._closed.parts[np.isin(self._codes, list(codes))].tolist()
        return parts

    def at(self, part: int) -> Sequence[_VersionCluster]:
        """Return the clusters that a part closed, in their order."""
        if self._closed is None:
            return ()
        if self._by_part is None:
            self._by_part = self._clusters(self._closed)
        return self._by_part.get(part, ())

    def _clusters(self, closed: ClosedClusters) -> dict[int, list[_VersionCluster]]:
        by_part: defaultdict[int, list[_VersionCluster]] = defaultdict(list)
        wanted = np.unique(closed.clusters[self._codes >= 0])
        ends = np.searchsorted(closed.clusters, [wanted, wanted + 1]).T
        for start, end in ends.tolist():
            rows, sizes = closed.rows[start:end].tolist(), closed.sizes[start:end].tolist()
            codes, totals = self._codes[start:end].tolist(), closed.totals[start:end].tolist()
            values = [
                (code, row, size, total)
                for code, row, size, total in zip(codes, rows, sizes, totals, strict=True)
                if code >= 0
            ]
            cluster = _VersionCluster(
                int(closed.times_ms[start]), {code for code in codes if code >= 0}, values,
                list(zip(rows, sizes, strict=True)),
            )  # fmt: skip
            by_part[int(closed.parts[start])].append(cluster)
        return by_part


def pipeline_of_release_alert(name: str) -> str | None:
    """Return the pipeline of the name of an alert about a release in the book; None for another alert."""
    rule, _, rest = name.partition(":")
    return str(json.loads(rest)[0]) if rule in (RELEASE_RULE, WORSE_RULE) else None


def firing_alerts_of(name: str) -> list[str]:
    """Return the names of the fields of the alerts about a release, given the name of its field without the kind."""
    return [f"{CheckpointField.FIRING_ALERT}{rule}:{name}" for rule in (RELEASE_RULE, WORSE_RULE)]


def _alert_name(rule: str, release: WatchedRelease) -> str:
    return f"{rule}:{_name(release)}"


def _field(release: WatchedRelease) -> str:
    return CheckpointField.RELEASE + _name(release)


def _name(release: WatchedRelease) -> str:
    return _text([release.pipeline, release.from_version, release.to_version, release.opened_ms])


def _age(release: WatchedRelease) -> tuple[int, int, str, str]:
    ended_ms = release.opened_ms if release.ended_ms is None else release.ended_ms
    return ended_ms, release.opened_ms, release.from_version, release.to_version


def _text(parts: Sequence[str | int]) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def _stratum(segments: Sequence[str | None]) -> int:
    """Return a code of the segment values but the version; 1 without any, and never 0."""
    others = sorted(segment for segment in segments if segment is not None and not segment.startswith(_PREFIX))
    digest = hashlib.blake2b("\0".join(others).encode(errors="surrogatepass"), digest_size=6).digest()
    return int.from_bytes(digest, "little") | 1


def _direction(record: Release, metric: str | None) -> Movement:
    higher = any(row.direction == "higher" for row in record.metrics if row.metric == metric)
    return "fall" if higher or metric is None else "rise"
