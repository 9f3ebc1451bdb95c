"""Settings of alerts: default rules, and the tables `[budget]`, `[moves]`, `[releases]`, `[clusters]`, `[stall]`."""

from collections.abc import Iterable
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from ragtide_schemas import METRICS, AlertRule
from ragtide_schemas.alert_rule import Duration, Severity, duration_ms
from ragtide_schemas.base import Name
from ragtide_schemas.step_metrics import ALL_TOOLS, TOOL_RULES

_BY_METRIC = {metric.name: metric.default_rule for metric in METRICS.values() if metric.default_rule is not None}

DEFAULT_RULES = tuple(
    AlertRule(
        name=rule.name,
        kind="drift",
        metric=metric,
        baseline=rule.baseline,
        labeler=rule.labeler,
        min_effect=rule.min_effect,
        severity=rule.severity,
    )
    for metric, rule in (
        *_BY_METRIC.items(),
        *((f"{ALL_TOOLS}{quantity}", rule) for quantity, rule in TOOL_RULES.items()),
    )
)
"""The default rules: each metric that has one says so. A number of `local` that does not move when answers stop being
supported has none: a rule on it would be quiet while they get worse."""


def rules_in_force(own: Iterable[AlertRule], *, defaults: bool) -> tuple[AlertRule, ...]:
    """Return the rules that are in force: the default rules, and those of the operator.

    Args:
        own: rules of the operator; a rule with the name of a default rule replaces it.
        defaults: whether the default rules are in force (`alert_defaults`).
    """
    own = tuple(own)
    names = {rule.name for rule in own}
    return (*(rule for rule in DEFAULT_RULES if defaults and rule.name not in names), *own)


def default_rules_of(rules: Iterable[AlertRule]) -> list[str]:
    """Return the names of the default rules among rules that are in force."""
    return [rule.name for rule in rules if rule in DEFAULT_RULES]


class BudgetSettings(BaseModel):
    """The false alarms of the whole deployment, by all rules without a run length: their number, or their share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    false_alarms: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of false alarms per period, on average; None gives every rule on every key its own run length."""
    false_discovery_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Maximum share of false alarms among all alarms of the deployment in a period, on average, such as 0.1; instead of
    `false_alarms`."""
    period: Duration = "7d"
    """The period, such as `1d` or `7d`."""

    @property
    def period_ms(self) -> int:
        """The period in milliseconds."""
        return duration_ms(self.period)

    @model_validator(mode="after")
    def _number_or_share(self) -> Self:
        if self.false_alarms is not None and self.false_discovery_rate is not None:
            raise ValueError(
                f"false_discovery_rate is {self.false_discovery_rate:g} and false_alarms is {self.false_alarms:g}, but "
                "one level cannot keep both: remove false_alarms to bound the share of false alarms, or "
                "false_discovery_rate to bound their number"
            )
        return self


class MovesSettings(BaseModel):
    """The quiet watch of each metric's level: it is shown, and notifies nobody (docs/understand/drift.md, "Moves")."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    """Whether aggregators watch the level of each metric of a whole pipeline, by each of its labelers."""
    false_per_month: Annotated[float, Field(gt=0)] = 1.0
    """Maximum number of false marks of moved levels in 30 days, on average, over all metrics and pipelines."""


class ReleaseSettings(BaseModel):
    """The comparison of two versions of a pipeline that serve at the same time: values of the segment `version`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    """Whether aggregators watch releases: one opens by itself when a second version answers."""
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Largest loss of a score that counts as not worse, as a share of the metric's range."""
    margin_relative: Annotated[float, Field(gt=0, le=10)] = 0.2
    """Largest rise of latency or cost that counts as not worse, as a share of the old version's mean."""
    alpha: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    """Probability that an equally good version is ever called worse, over all metrics and looks of a release."""
    until_s: Annotated[float, Field(ge=60, le=31_536_000)] = 86_400.0
    """Seconds of event time after which a release ends while both versions still serve."""
    severity: Severity = "page"
    """Severity of the alert that the new version is worse; that of a release that opens is info."""

    @property
    def until_ms(self) -> int:
        """Milliseconds of event time after which a release ends."""
        return int(self.until_s * 1000)


BLOCKS: Final = "blocks"
"""The choice of clusters that are stretches of neighbouring interactions of a pipeline."""

FOREVER_MS: Final = 10**15
"""A quiet time that never ends."""


class ClusterSettings(BaseModel):
    """Interactions whose scores depend on each other."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Annotated[
        str, StringConstraints(pattern=r"^(none|auto|cluster|session_id|user_id|blocks|segment:.{1,256})$")
    ] = "auto"
    """What a cluster of dependent interactions has in common: `cluster`, `session_id`, `user_id` or `segment:NAME`.
    `auto` means `cluster`, else `session_id`; `blocks` means neighbors in time; `none` means no clusters."""
    size: Annotated[int, Field(ge=2, le=1000)] = 10
    """Maximum number of interactions of a cluster; choose it so that most clusters are smaller."""
    block: Annotated[int, Field(ge=2, le=1000)] | None = None
    """Length of `blocks`; None measures the dependence and chooses 4 to 1,024 interactions."""
    quiet_s: Annotated[float, Field(gt=0, le=604_800)] = 600.0
    """Seconds without an interaction of a cluster, after which the whole cluster counts in intervals and alerts, also
    if traffic stops. The first answer of a session counts in alerts at once."""
    open_cap: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of open clusters of a pipeline; with more, the one that was quiet for longest is closed at
    once."""

    @property
    def length(self) -> int | None:
        """Most interactions of a cluster: more of the same name are the next cluster. None measures it for blocks."""
        return self.block if self.by == BLOCKS else self.size

    @property
    def quiet_ms(self) -> int:
        """Milliseconds without an interaction of a cluster after which it is closed; a block ends by its length alone.

        They are of event time of its pipeline or, by a tick, of the time at which interactions came.
        """
        return FOREVER_MS if self.by == BLOCKS else int(self.quiet_s * 1000)

    @property
    def measures_blocks(self) -> bool:
        """Whether the length of blocks follows from the measured dependence."""
        return self.by == BLOCKS and self.block is None

    @property
    def has_first_answers(self) -> bool:
        """Whether clusters begin with an answer that is independent of all earlier ones, as sessions do."""
        return self.by != BLOCKS and not self.by.startswith("segment:")


class LowTrafficSettings(BaseModel):
    """The least traffic of pipelines: a table `[[stall.low_traffic]]`."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    pipeline: Name = "*"
    """Shell-style pattern of the names of pipelines."""
    below: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """A pipeline counts as low-traffic when fewer interactions than this were scored within `for`."""
    period: Annotated[Duration, Field(alias="for")]
    """Time in which they are counted, such as `30m`; in the file `for`."""
    severity: Severity = "ticket"
    """Severity of the alert: page, ticket or info."""

    @property
    def period_ms(self) -> int:
        """The period in milliseconds."""
        return duration_ms(self.period)


class StallSettings(BaseModel):
    """The limits of pipeline health alerts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    labeling_s: Annotated[float, Field(gt=0)] | None = 300.0
    """Seconds that the oldest interaction may wait for labels, or for the labeler of a cascade's sample, until an alert
    fires; None never alerts."""
    traffic_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds without a scored interaction after which an alert fires; None never alerts, for irregular traffic."""
    quiet_s: Annotated[float, Field(gt=0)] | None = 300.0
    """Seconds without a dropped interaction after which an alert about drops resolves; None never alerts about
    drops."""
    absent_share: Annotated[float, Field(gt=0, lt=1)] | None = 0.2
    """An alert fires when the share of interactions without a metric rises by this much; None never alerts."""
    low_traffic: tuple[LowTrafficSettings, ...] = ()
    """Minimum traffic of pipelines: tables `[[stall.low_traffic]]` with `pipeline`, `below`, `for` and `severity`."""

    @classmethod
    def none(cls) -> Self:
        """Return settings without pipeline health alerts."""
        return cls(labeling_s=None, traffic_s=None, quiet_s=None, absent_share=None)
