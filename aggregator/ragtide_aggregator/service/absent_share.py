"""Finds metrics whose share of interactions without a score jumps. No clock, no I/O.

The interactions of a pipeline are divided into blocks, by number and time alone. The share of absences in a block, for
one metric and one reason, is compared with the share in all blocks before. If the share is constant, the number in the
block is hypergeometric given the total of both, and

    P(a or more of the m in the block) <= exp(-m KL(a / m, share of both))

(Hoeffding 1963, Theorem 1 and section 6: drawing without replacement is no worse than with). The k-th block of a metric
and reason may spend alpha / (k (k + 1)) of the error probability, and these add up to alpha over any number of blocks.
So a constant share raises an alert with a probability of at most alpha, for any value of the share and any number of
checks. The first block has no block before it: its share is compared with `FAILING_SHARE` if the reason is a failure,
and not compared otherwise.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import partial
from hashlib import blake2b
from math import exp, log
from typing import Final, NamedTuple

from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Alert, from_milliseconds
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.printable import printable

from ..events.keys import EstimateKey
from ..state.state import AggregatorState

ALPHA: Final = 1e-3
"""Probability that a constant share of one metric and reason ever raises an alert."""

LEAST_N: Final = 20
"""Least interactions of a block."""

LEAST_MS: Final = 30_000
"""Least milliseconds of a block."""

FAILURES: Final = frozenset(
    {"judge_unusable", "judge_refused", "judge_unavailable", "over_budget", "metric_failed", "incomplete_labels",
     "context_too_long"}
)  # fmt: skip
"""Reasons that are failures; the other reasons are properties of the interaction."""

FAILING_SHARE: Final = 0.1
"""Share of failures with which the first block is compared."""

DERIVED: Final = frozenset({"part_absent"})
"""Reasons that follow from the absence of another metric, which has an alert of its own."""

ADVICE: Final = {
    "judge_unusable": "The judge's answers hold no labels: check its address and model (ragtide doctor).",
    "judge_unavailable": "The judge cannot be called: ragtide doctor shows the reason.",
    "over_budget": "The judge's spend limit is reached: raise it, or ask for fewer labels.",
    "metric_failed": "A custom metric fails: the worker's log shows the error.",
    "nothing_retrieved": "The retriever returns nothing: look at the retriever and its index.",
    "no_response": "The generator returns nothing: look at the generator.",
    "refusal": "More responses refuse to answer: look at the retriever, the prompt and the questions.",
}
"""Remedy by reason."""

_HISTORY: Final = CheckpointField.HEALTH_ABSENT

RULE: Final = "stall-absent"
"""Rule of these alerts."""


class AbsenceCounts(NamedTuple):
    """Numbers of interactions: all, and those in which a metric was absent for one reason."""

    n: int
    absent: int


@dataclass(frozen=True, slots=True)
class AbsenceHistory:
    """The counts of one metric and reason in the blocks before, and at the start of the present block."""

    base_n: int = 0
    base_absent: int = 0
    begun_n: int = 0
    begun_absent: int = 0
    begun_ms: int = 0
    blocks: int = 0
    """Blocks that were compared."""
    jumped: bool = False
    """Whether the share has jumped and not come back; until it has, `base_n` and `base_absent` stay."""


def jumped(before: AbsenceCounts, block: AbsenceCounts, *, blocks: int, least: float, failure: bool) -> bool:
    """Return whether the share of absences in a block is significantly higher than before, and by `least` or more.

    Args:
        before: all blocks before; it may be empty.
        block: the present block.
        blocks: number of blocks compared so far, including this block.
        least: smallest difference of shares that counts.
        failure: whether the reason is a failure.
    """
    if before.n == 0 and not failure:
        return False
    share = block.absent / block.n
    # The share under the hypothesis is given if there is no block before; otherwise all blocks together estimate it.
    usual = FAILING_SHARE if before.n == 0 else before.absent / before.n
    if share - usual < least:
        return False
    both = usual if before.n == 0 else (before.absent + block.absent) / (before.n + block.n)
    return exp(-block.n * _divergence(share, both)) <= ALPHA / (blocks * (blocks + 1))


def _divergence(share: float, other: float) -> float:
    """Return the Kullback-Leibler divergence of two Bernoulli distributions, in nats.

    >>> round(_divergence(1.0, 0.5), 4), _divergence(0.3, 0.3)
    (0.6931, 0.0)
    """
    parts = ((share, other), (1 - share, 1 - other))
    return sum(p * log(p / q) if q > 0 else float("inf") for p, q in parts if p > 0)


class AbsentShares:
    """The shares of interactions in which the metrics of one partition are absent, by reason.

    Args:
        least: smallest jump of a share that counts; None never alerts.
    """

    def __init__(self, least: float | None, partition: int) -> None:
        self._least = least
        self._partition = partition
        self._histories: dict[tuple[EstimateKey, str], AbsenceHistory] = {}
        self._shares: dict[tuple[EstimateKey, str], tuple[AbsenceCounts, AbsenceCounts]] = {}
        """For each share that jumped: the blocks before, and the block in which it jumped."""
        self._checked_ms = 0
        self._written: dict[str, bytes] = {}
        self._gone: list[str] = []

    def check(self, now_ms: int, state: AggregatorState) -> None:
        """Set the conditions in the book of the state; all metrics of a pipeline, labeler and reason share an alert."""
        if now_ms - self._checked_ms < LEAST_MS:
            return
        self._checked_ms = now_ms
        if self._least is not None:
            self._compare_all(now_ms, state, self._least)
        self._set(now_ms, state.book)

    def _compare_all(self, now_ms: int, state: AggregatorState, least: float) -> None:
        counts, moments = state.rows.counts, state.moments
        for key, reasons in state.absences:
            row = state.index(key)
            if row is None:
                continue
            n = int(moments.n(row)) + int(counts[0, row])
            for reason, reason_row in reasons.items():
                if reason not in DERIVED:
                    self._compare((key, reason), AbsenceCounts(n, int(counts[0, reason_row])), now_ms, least)

    def _compare(self, series: tuple[EstimateKey, str], total: AbsenceCounts, now_ms: int, least: float) -> None:
        known, failure = self._histories.get(series), series[1] in FAILURES
        if known is None:
            # All interactions until now count as the blocks before, unless their share of failures is high already.
            failing = failure and total.absent > FAILING_SHARE * total.n
            base = AbsenceCounts(0, 0) if failing else total
            self._keep(series, AbsenceHistory(base.n, base.absent, total.n, total.absent, now_ms))
            return
        block = AbsenceCounts(total.n - known.begun_n, total.absent - known.begun_absent)
        if block.n < LEAST_N or now_ms - known.begun_ms < LEAST_MS or block.absent < 0:
            return
        before, blocks = AbsenceCounts(known.base_n, known.base_absent), known.blocks + 1
        if known.jumped:
            usual = before.absent / before.n if before.n else FAILING_SHARE
            # The alert resolves at half the limit: at the limit itself it would fire and resolve again and again.
            now = block.absent / block.n - usual > least / 2
        else:
            now = jumped(before, block, blocks=blocks, least=least, failure=failure)
        if now:
            self._shares[series] = before, block
        base = before if now else AbsenceCounts(before.n + block.n, before.absent + block.absent)
        self._keep(series, AbsenceHistory(base.n, base.absent, total.n, total.absent, now_ms, blocks, now))

    def _keep(self, series: tuple[EstimateKey, str], history: AbsenceHistory) -> None:
        self._histories[series] = history
        key, reason = series
        content = {"key": key.encode(), "reason": reason, "followed": list(astuple(history))}
        self._written[_HISTORY + _digest(key.encode(), reason)] = json.dumps(content).encode()

    def _set(self, now_ms: int, book: AlertBook) -> None:
        jumped_keys: defaultdict[_Cause, list[EstimateKey]] = defaultdict(list)
        for (key, reason), history in self._histories.items():
            scope: _Cause = key.pipeline, key.run or "", key.profile, key.labeler, key.labeler_version, reason
            keys = jumped_keys[scope]
            if history.jumped and self._least is not None:
                keys.append(key)
        for cause, keys in jumped_keys.items():
            # Shares are not stored: the alert of a share that jumped before a restart needs its next block to fire.
            measured = [key for key in keys if (key, cause[-1]) in self._shares]
            condition = bool(measured) or None if keys else False
            alert = partial(self._alert, cause, measured, now_ms)
            pipeline = printable(cause[0])[:NAME_MAX_CHARS]
            resolved = f"Scores of {pipeline} are no longer absent more often than before ({_reason(cause)})."
            book.set(_name(cause), condition, now_ms, alert, resolved)
        names = {_name(cause) for cause in jumped_keys}
        book.end_others(
            RULE, names, now_ms, lambda fired: f"The absent scores of {fired.pipeline} are counted anew from now on."
        )

    def _alert(self, cause: "_Cause", keys: list[EstimateKey], now_ms: int) -> Alert:
        shares = {key: self._shares[key, cause[-1]] for key in keys}
        key = max(keys, key=lambda key: shares[key][1].absent / shares[key][1].n)
        before, block = shares[key]
        share, usual = block.absent / block.n, before.absent / before.n if before.n else FAILING_SHARE
        pipeline, reason = printable(key.pipeline)[:NAME_MAX_CHARS], _reason(cause)
        metrics = key.metric if len(keys) == 1 else f"{key.metric} and {len(keys) - 1} more"
        expected = f"{usual:.0%} before" if before.n else f"at most {usual:.0%} is usual"
        return Alert(
            alert_id=f"{RULE}:{self._partition}:{_digest(*cause)}:{now_ms}",
            status="firing",
            rule=RULE,
            kind="stall",
            **{**key.names, "pipeline": pipeline, "segment": None},
            direction="rise",
            fired_at=from_milliseconds(now_ms),
            baseline=usual,
            observed=share,
            observed_n=block.n,
            message=(
                f"Scores are missing: {metrics} of {pipeline} absent ({reason}) in {block.absent:,} of the last "
                f"{block.n:,} interactions: {share:.0%}, {expected}. "
                f"{ADVICE.get(reason, 'Find the common property of these interactions.')}"
            ),
        )

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return fields to write and fields to remove in the checkpoint since the last call."""
        changes = self._written, self._gone
        self._written, self._gone = {}, []
        return changes

    @classmethod
    def from_fields(cls, least: float | None, partition: int, fields: Mapping[str, bytes]) -> "AbsentShares":
        """Return the shares that the fields of a checkpoint hold; fields of another version are dropped."""
        absences = cls(least, partition)
        for name, data in fields.items():
            if not name.startswith(_HISTORY):
                continue
            try:
                content = json.loads(data)
                *numbers, jumped_ = content["followed"]
                n, absent, begun_n, begun_absent, begun_ms, blocks = map(int, numbers)
                history = AbsenceHistory(n, absent, begun_n, begun_absent, begun_ms, blocks, jumped_ is True)
                absences._histories[EstimateKey.decode(content["key"]), content["reason"]] = history
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                absences._gone.append(name)
        return absences


_Cause = tuple[str, ...]
"""The subject of one alert: pipeline, run, profile, labeler and its version, reason."""


def _reason(cause: _Cause) -> str:
    return printable(cause[-1])[:NAME_MAX_CHARS]


def _name(cause: _Cause) -> str:
    return f"{RULE}:{_digest(*cause)}"


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
