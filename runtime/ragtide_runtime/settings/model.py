"""All settings: from the environment, else from files of secrets, else from `ragtide.toml`, else defaults.

Variables begin with `RAGTIDE_`; `RAGTIDE_SECRETS_DIR` names the folder of the secrets, `RAGTIDE_CONFIG` another file.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self, get_args

from pydantic import Field, PrivateAttr, StringConstraints, model_validator

from ragtide_schemas import AlertRule
from ragtide_schemas.limits import EVALUATORS_MAX

from ..errors import ConfigurationError
from ..redis.keys import workspace_of
from .alerting import (
    DEFAULT_RULES,
    BudgetSettings,
    ClusterSettings,
    MovesSettings,
    ReleaseSettings,
    StallSettings,
    rules_in_force,
)
from .application import ApplicationSettings
from .bridge import BridgeSettings
from .evaluators import SHARED_LIMITS, EvaluatorSettings, replaced
from .ingest import IngestSettings
from .labelers import (
    CascadeSettings,
    JudgeSettings,
    LocalSettings,
    ModelsSettings,
    ServiceName,
    ServiceSettings,
    check_sessions,
)
from .loading import check_named_file, refuse_unknown_variables
from .notify import NotifySettings
from .retention import HistorySettings, RecorderSettings, SpecimenSettings
from .serve import McpSettings, ServeSettings, WebSettings
from .telemetry import OtelSettings, PrometheusSettings

WindowName = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,4}[smhd](/[1-9][0-9]{0,4}[smhd])?$")]


ComputedCovariate = Literal["question_length", "context_length", "documents", "top_score", "mean_score"]
"""Name of a covariate that workers can compute."""

COMPUTED_COVARIATES: Final[tuple[ComputedCovariate, ...]] = get_args(ComputedCovariate)
"""All of them."""


class Settings(ApplicationSettings):
    """Every setting of every role: those of an application, and these. An unknown name in the TOML file is an error."""

    feedback_window_s: Annotated[float, Field(gt=0)] = 604_800.0
    """Seconds for which later gold scores find their interaction, or wait for an interaction that is not yet scored."""
    labeler: str = "local"
    """Labeler of the workers: `local`, `judge`, `cascade`, another one of ragtide or of an installed package by its
    name (docs/scores/labelers.md), or `module:attribute`."""
    evaluators: Annotated[tuple[EvaluatorSettings, ...], Field(max_length=EVALUATORS_MAX)] = ()
    """Several labelers, each for a part of the traffic, in place of `labeler`: `[[evaluators]]` in the TOML file, or
    JSON in `RAGTIDE_EVALUATORS` (docs/scores/evaluators.md)."""
    profile: str = "ragbench"
    """Variant of the TRACe formulas for a judge's labels: `ragbench`, `ragbench_raw`, `capstone`."""
    claim_profile: str = "ragchecker_strict"
    """Variant of the RAGChecker formulas: `ragchecker_strict` (undefined is absent), `ragchecker` (undefined is 0)."""
    metrics: tuple[str, ...] = ()
    """Optional metrics by name, such as `retrieval.average_precision`, and custom metrics as `module:attribute`;
    metrics of installed packages are added. At most 102 custom metrics are possible: an event declares at most 233
    metrics, those of criteria and retrieval steps included."""
    covariates: tuple[ComputedCovariate, ...] = ()
    """Numbers known before the answer that the workers add to metric events (docs/connect/python.md):
    `question_length`, `context_length`, `documents`, `top_score`, `mean_score`. Those that alert rules compare are
    added, too."""
    local: LocalSettings = LocalSettings()
    """The local labeler: the table `[local]`."""
    judge: JudgeSettings = JudgeSettings()
    """The LLM judge: the table `[judge]`."""
    models: ModelsSettings = ModelsSettings()
    """The models of the labeler `model`: the table `[models]`."""
    services: dict[ServiceName, ServiceSettings] = Field(default_factory=dict)
    """HTTP services that labelers call, by the labeler's name: the tables `[services.NAME]`."""
    cascade: CascadeSettings = CascadeSettings()
    """The labelers of the labeler `cascade`, and their samples: the table `[cascade]`."""
    worker_processes: Annotated[int, Field(ge=0, le=1024)] | None = None
    """Processes in which `ragtide worker` labels, or `ragtide up` beside the process of its other roles; None: by the
    processors that are left (docs/operate/deployment.md). With 0 `ragtide up` is one process."""
    worker_batch: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Maximum number of entries that one read takes from the stream. While the labeler waits, a read takes at most
    `worker_concurrency`, so that other workers get their part."""
    worker_concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Maximum number of interactions that one worker labels at once."""
    worker_min_idle_s: Annotated[float, Field(gt=0)] = 90.0
    """Seconds after which a worker takes over an entry that another worker has not finished."""
    max_deliveries: Annotated[int, Field(ge=1)] = 5
    """Number of deliveries after which an entry is labeled alone once more; if that fails, it is a dead letter."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level of the intervals."""
    aggregator_batch: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Maximum number of metric events in one step of the aggregator."""
    commit_interval_s: Annotated[float, Field(ge=0)] = 0.25
    """Seconds between two commits of the aggregator; each commit makes newer estimates visible."""
    lease_s: Annotated[float, Field(gt=0)] = 10.0
    """Seconds after which the partition of a silent aggregator may be taken over."""
    estimates_cap: Annotated[int, Field(ge=1)] = 100_000
    """Approximate maximum number of entries of the stream of estimates."""
    estimates_interval_s: Annotated[float, Field(gt=0)] = 10.0
    """Seconds between two entries of the stream of estimates for one pipeline, metric and labeler."""
    events_cap: Annotated[int, Field(ge=1)] = 1_000_000
    """Number of metric events of a partition that may wait for an aggregator before the workers pause."""
    events_keep: Annotated[int, Field(ge=0)] = 100_000
    """Number of aggregated metric events of a partition that stay in the stream for later feedback."""
    alert_cap: Annotated[int, Field(ge=1)] = 10_000
    """Maximum number of entries of the stream of alerts."""
    dead_letters_bytes: Annotated[int, Field(ge=1)] = 1_073_741_824
    """Maximum number of bytes of a partition's dead letters in Redis; older dead letters are dropped and counted."""
    recorder: RecorderSettings = RecorderSettings()
    """The recorder: the table `[recorder]`."""
    specimens: SpecimenSettings = SpecimenSettings()
    """Items that are kept to be looked at: the table `[specimens]`."""
    ingest: IngestSettings = IngestSettings()
    """Traces that become interactions: the table `[ingest]`."""
    serve: ServeSettings = ServeSettings()
    """The HTTP service: the table `[serve]`."""
    bridge: BridgeSettings = BridgeSettings()
    """The bridge to a message broker: the table `[bridge]`."""
    otel: OtelSettings = OtelSettings()
    """OpenTelemetry: the table `[otel]`."""
    clusters: ClusterSettings = ClusterSettings()
    """Which interactions depend on each other: the table `[clusters]`."""
    stall: StallSettings = StallSettings()
    """Limits of the pipeline health alerts: the table `[stall]`."""
    segments: bool = True
    """Whether every segment value has estimates of its own."""
    keys_cap: Annotated[int, Field(ge=1)] = 5_000
    """Maximum number of keys (metrics of a pipeline, a run or a segment value) of one pipeline in a partition; further
    segment values count in the value `other`."""
    partition_keys_cap: Annotated[int, Field(ge=1)] = 50_000
    """Maximum number of keys of one partition; further pipelines count in the pipeline `other:` with the partition's
    number."""
    windows: tuple[WindowName, ...] = ("1h", "24h/1h")
    """Windows in event time with estimates of their own: `1h` is tumbling, `24h/1h` is a day that moves every hour."""
    lateness_s: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds after the end of a window's pane for which late interactions still count in it."""
    quantiles: bool = True
    """Whether quantiles of scores, labeling time and cost are kept for whole pipelines."""
    history: HistorySettings = HistorySettings()
    """Series of estimates over time: the table `[history]`."""
    budget: BudgetSettings = BudgetSettings()
    """The false alarms of the whole deployment, by number or share: the table `[budget]`."""
    alert_defaults: bool = True
    """Whether the default rules are in force beside those of `alerts`; false leaves only those of `alerts`."""
    alerts: tuple[AlertRule, ...] = DEFAULT_RULES
    """Alert rules: `[[alerts]]` in the TOML file, or JSON in `RAGTIDE_ALERTS`. They are added to the default rules; a
    rule with the name of a default rule replaces it."""
    rules_poll_s: Annotated[float, Field(ge=0)] = 10.0
    """Seconds between two checks whether the TOML file or a file of secrets has changed; 0 never checks."""
    moves: MovesSettings = MovesSettings()
    """The quiet watch of each metric's level: the table `[moves]`."""
    releases: ReleaseSettings = ReleaseSettings()
    """The comparison of two versions that serve at the same time: the table `[releases]`."""
    notify: NotifySettings = NotifySettings()
    """Notifications of alerts: the table `[notify]`."""
    web: WebSettings = WebSettings()
    """The page: the table `[web]`."""
    mcp: McpSettings = McpSettings()
    """The server for programs with a language model: the table `[mcp]`."""
    prometheus: PrometheusSettings = PrometheusSettings()
    """Estimates and alerts for Prometheus: the table `[prometheus]`."""
    log_level: Annotated[str, StringConstraints(pattern=r"^(debug|info|warning|error)$")] = "info"
    """Lowest level of the events that are logged: debug, info, warning or error."""
    http_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port for /metrics, /healthz and /readyz of a role; None serves nothing, 0 takes a free port and logs it."""
    http_host: str = "127.0.0.1"
    """Address for that port; with `0.0.0.0` (IPv4) or `::` (both IPv6 and IPv4) other machines reach it, without a
    password."""

    @model_validator(mode="after")
    def _rules_are_added_to_the_defaults(self) -> Self:
        own = self.alerts if "alerts" in self.model_fields_set else ()
        # Readers of `alerts` get the rules that are in force; the model is frozen for everybody else.
        self.__dict__["alerts"] = rules_in_force(own, defaults=self.alert_defaults)
        return self

    @model_validator(mode="after")
    def _rule_names_are_unique(self) -> Self:
        names = [rule.name for rule in self.alerts]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"alerts has two rules named {name!r}: give each rule a name of its own")
        return self

    @model_validator(mode="after")
    def _evaluators_are_complete(self) -> Self:
        if self.evaluators and "labeler" in self.model_fields_set:
            raise ValueError(
                f"labeler is {self.labeler!r}, and there are evaluators, each with a labeler of its own: remove "
                "labeler, or write it as another of the [[evaluators]]"
            )
        names = [evaluator.name for evaluator in self.evaluators]
        for place, evaluator in enumerate(self.evaluators):
            if names.count(evaluator.name) > 1:
                raise ValueError(f"evaluators has two named {evaluator.name!r}: give each a name of its own")
            complete = self._evaluator_settings(place, evaluator)
            if complete.judge.over_budget == "local" and "judge" in complete.labelers:
                raise ValueError(
                    f'evaluators[{place}] ({evaluator.name}): judge.over_budget is "local", and with evaluators a '
                    'judge over its budget waits: set it to "pause", or add an evaluator with labeler = "local"'
                )
        return self

    @model_validator(mode="after")
    def _segments_are_there(self) -> Self:
        for rule in self.alerts:
            if rule.adjust is not None and not self.segments:
                raise ValueError(
                    f"segments is false, and rule {rule.name!r} has adjust = {rule.adjust!r}, which needs segment "
                    "values: set segments = true, or remove the rule"
                )
        return self

    @model_validator(mode="after")
    def _windows_of_prometheus_exist(self) -> Self:
        for name in self.prometheus.windows or ():
            if name not in ("all", *self.windows):
                raise ValueError(
                    f"prometheus.windows has {name!r}, which is neither 'all' nor in windows: add it to windows, or "
                    "remove it"
                )
        return self

    @model_validator(mode="after")
    def _rate_is_of_some_rule(self) -> Self:
        rate = self.budget.false_discovery_rate
        if rate is not None and self.alerts and all(rule.run_length is not None for rule in self.alerts):
            raise ValueError(
                f"budget.false_discovery_rate is {rate:g}, but every rule has a run_length of its own, so it bounds "
                "nothing: remove run_length from the rules that it is for, or remove budget.false_discovery_rate"
            )
        return self

    @model_validator(mode="after")
    def _sessions_are_whole(self) -> Self:
        judges = [self.judge, *(evaluator.judge for evaluator in self.evaluators)]
        for judge in judges:
            check_sessions(getattr(judge, "criteria", ()), self.splits, self.producer)
        return self

    @property
    def computed_covariates(self) -> tuple[str, ...]:
        """Names of the covariates that the workers compute: those of the setting, and those of alert rules."""
        ruled = {rule.covariate for rule in self.alerts}
        return tuple(name for name in COMPUTED_COVARIATES if name in self.covariates or name in ruled)

    @property
    def labelers(self) -> tuple[str, ...]:
        """Names of the labelers of the workers: of all evaluators; one labeler, or the two or three of a cascade."""
        if self.evaluators:
            names = [name for evaluator in self.evaluators for name in self.of_evaluator(evaluator).labelers]
            return tuple(dict.fromkeys(names))
        return self.cascade.labelers if self.labeler == "cascade" else (self.labeler,)

    @property
    def accounts(self) -> tuple[str, ...]:
        """Names of the accounts whose spend limits raise alerts."""
        own = [evaluator.account for evaluator in self.evaluators if evaluator.has_own_account]
        return ("judge", *self.services, *own)

    _evaluator: EvaluatorSettings | None = PrivateAttr(default=None)
    _process: tuple[int, int] = PrivateAttr(default=(0, 1))

    _given: dict[str, object] = PrivateAttr(default_factory=dict)

    @property
    def given(self) -> dict[str, object]:
        """The settings that the caller gave, which are stronger than environment and file; also this prefix."""
        return {**self._given, "prefix": self.prefix}

    _as_loaded: Self | None = PrivateAttr(default=None)

    @property
    def as_loaded(self) -> Self:
        """These settings as they were loaded, before a command or a process changed them for itself."""
        return self._as_loaded or self

    @classmethod
    def loaded(cls, overrides: Mapping[str, object]) -> Self:
        """Return the settings from all sources, and remember what the caller gave.

        Raises:
            ConfigurationError: a setting is wrong.
        """
        if "labeler" in overrides:  # a command was asked for one labeler
            overrides = {"evaluators": (), **overrides}
        settings = super().loaded(overrides)
        settings._given = dict(overrides)
        return settings.with_loaded(settings)

    def for_this_process(self, loaded: Self) -> Self:
        """Return settings that were loaded later, with the limits of the process that these are of."""
        number, processes = self._process
        return loaded if processes == 1 else loaded.of_process(number, processes)

    def with_loaded(self, loaded: Self) -> Self:
        """Return these settings, with others as those that were loaded."""
        settings = self.model_copy()
        settings._as_loaded = loaded
        return settings

    @property
    def evaluator(self) -> EvaluatorSettings | None:
        """The evaluator that these settings are of (`of_evaluator`); None for those of the deployment."""
        return self._evaluator

    def of_evaluator(self, evaluator: EvaluatorSettings) -> Self:
        """Return the settings with which an evaluator's labeler is built: one labeler, and the tables that it has."""
        return self._evaluator_settings(self.evaluators.index(evaluator), evaluator)

    def _evaluator_settings(self, place: int, evaluator: EvaluatorSettings) -> Self:
        changes: dict[str, object] = {"labeler": evaluator.labeler, "evaluators": ()}
        for table, values in evaluator.tables():
            try:
                own = replaced(getattr(self, table), values)
            except ValueError as error:
                raise ValueError(f"evaluators[{place}] ({evaluator.name}): {table}: {error}") from None
            if isinstance(own, JudgeSettings):
                # The limits of the deployment have been divided already.
                share = own.share(*self._process)
                divided = {name: getattr(share, name) for name in SHARED_LIMITS if name in values}
                own = own.model_copy(update=divided)
            changes[table] = own
        settings = self.model_copy(update=changes)
        settings._evaluator = evaluator
        return settings

    def with_labeler(self, labeler: str) -> Self:
        """Return the settings with one labeler, and without evaluators."""
        return self.model_copy(update={"labeler": labeler, "evaluators": ()})

    @property
    def one_labeler(self) -> str:
        """Name of the labeler, for what asks a single one.

        Raises:
            ConfigurationError: there are evaluators.
        """
        if self.evaluators:
            names = ", ".join(self.labelers)
            raise ConfigurationError(
                f"the settings have several evaluators, and one labeler is asked here: name it, such as {names} "
                "(labeler in Python, --labeler or RAGTIDE_LABELER with a settings file without evaluators)"
            )
        return self.labeler

    def of_process(self, number: int, processes: int) -> Self:
        """Return the settings of one process of a worker: the limits of endpoints are divided among them.

        Args:
            number: of the process, from 0.
        """
        services = {name: service.share(number, processes) for name, service in self.services.items()}
        settings = self.model_copy(update={"judge": self.judge.share(number, processes), "services": services})
        settings._process = (number, processes)
        return settings

    @property
    def keeps_specimens(self) -> bool:
        """Whether specimens of live traffic, or of this workspace, are kept."""
        return self.specimens.enabled and (self.specimens.offline or workspace_of(self.prefix) is None)

    @property
    def is_scraped(self) -> bool:
        """Whether a role has an address at which its `/metrics` can be read."""
        return self.http_port is not None or self.serve.port is not None


def load_settings(**overrides: object) -> Settings:
    """Return the settings of this process; log a variable that is far from every setting, as it may be the user's own.

    Raises:
        ConfigurationError: a setting is wrong or probably misspelt, the file has an unknown one, or the file that
            `RAGTIDE_CONFIG` names cannot be read.
    """
    check_named_file()
    return load_settings_to_write(**overrides)


def load_settings_to_write(**overrides: object) -> Settings:
    """Return the settings as `load_settings`, for a command that writes the file: it may be missing."""
    refuse_unknown_variables()
    return Settings.loaded(overrides)


def settings_of_application(**overrides: object) -> Settings:
    """Return all settings for a user's application that scores, reads or runs experiments (`of_application`)."""
    return Settings.of_application(**overrides)
