"""Builds the labeler that the settings name, with everything that it needs."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from redis.asyncio import Redis

from ragtide_runtime.bundled_data import bundled
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.user_code import error_text, never_waits, run_at_once, run_limited
from ragtide_runtime.redis.keys import workspace_of
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction
from ragtide_schemas.known_labelers import KNOWN
from ragtide_schemas.suggestions import unknown

from ..metrics.custom import CustomMetric
from ..text import ARRAYS
from .cascade import CascadeLabeler
from .evaluators import EvaluatorSet, NoLabeler, ReplaceableLabeler, evaluator_of
from .plugins import custom_labeler, custom_metrics, installed_labelers
from .profiles import check_profiles
from .protocol import Labeler, Labeling, close
from .remote.services import Services
from .remote.telemetry import LabelerTelemetry
from .suspected import SuspectedPipelines
from .with_metrics import WithMetrics

if TYPE_CHECKING:
    from .local.labeler import LocalLabeler
    from .remote.spend import Spend

LABEL_TIMEOUT_S: Final = 3600.0
"""Seconds after which a labeler that has not answered counts as failed; endpoints have shorter limits of their own."""

CLOSE_S: Final = 10.0
"""Seconds that closing a labeler may take."""

log = structlog.get_logger("ragtide.worker")

IN_ONE_FILE: Final = {name: known.built_by for name, known in KNOWN.items() if known.built_by}
"""Labelers of ragtide that are built in the same way as labelers of users."""

BUILT_IN: Final = ("local", "judge", "model", "cascade", *IN_ONE_FILE)
"""Labelers that come with ragtide."""


class Bounded:
    """A labeler with a timeout."""

    def __init__(self, labeler: Labeler, timeout_s: float) -> None:
        self._labeler = labeler
        self._timeout_s = timeout_s
        self._never_waits = never_waits(labeler.label)
        self.name, self.version, self.profile = labeler.name, labeler.version, labeler.profile
        self.metrics = tuple(getattr(labeler, "metrics", ()))
        for name in ("absent_labeling", "take_criteria"):
            if hasattr(labeler, name):
                setattr(self, name, getattr(labeler, name))

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the labeler's scores.

        Raises:
            TimeoutError: the labeler took too long.
            Exception: any error of the labeler, or `UnexpectedExit` in place of another exception.
        """
        if self._never_waits:
            return run_at_once(partial(self._labeler.label, interaction))
        return await run_limited(lambda: self._labeler.label(interaction), self._timeout_s)

    async def aclose(self) -> None:
        """Close the labeler if it can be closed."""
        await close(self._labeler)


@asynccontextmanager
async def labeler_of(
    settings: Settings,
    redis: Redis | None,
    *,
    patient: bool = True,
    telemetry: LabelerTelemetry | None = None,
    also: Sequence[CustomMetric] = (),
    answers: Path | None = None,
    account: "Spend | None" = None,
) -> AsyncIterator[Labeler]:
    """Build the labeler that the settings name, with custom metrics, and close it after the body.

    Args:
        settings: name the labeler, and have its settings.
        redis: holds cache and spend of remote labelers for all processes; without it each process has its own.
        patient: whether the sample of a cascade may wait for its labeler, as in a worker.
        telemetry: counts the calls of remote labelers. Its health reports whether the reference of a cascade is
            available, because the worker continues without it.
        also: more custom metrics than the settings name.
        answers: without Redis, a file that caches answers for later processes; None caches in memory.
        account: counts the dollars of this run, beside the account of the deployment; not for evaluators.

    Raises:
        ConfigurationError: no labeler has that name, a setting that it needs is missing, or the language model is not
            installed.
    """
    bundled(ARRAYS)
    metrics = [*custom_metrics(settings), *also]
    telemetry = telemetry or LabelerTelemetry()
    if settings.evaluators:
        if not patient:
            _ = settings.one_labeler  # raises the error
        async with AsyncExitStack() as stack:
            yield await _evaluators(settings, redis, stack, telemetry=telemetry, metrics=metrics, also=also)
        return
    models = await _models(settings) if "model" in settings.labelers else None
    local = await _local(settings) if "local" in settings.labelers or _falls_back(settings) else None
    build = _Builder(settings, redis, telemetry, models=models, local=local, answers=answers, account=account)
    labeler = build.cascade(patient=patient) if settings.labeler == "cascade" else build.one(settings.labeler)
    outages = labeler.outages if isinstance(labeler, CascadeLabeler) else ()
    if isinstance(labeler, CascadeLabeler) and labeler.suspected is not None:
        await labeler.suspected.read()  # so that the first interactions do not wait
    reporting = telemetry.health.reporting(settings.cascade.reference, *outages) if outages else nullcontext()
    try:
        with reporting:
            yield WithMetrics(labeler, metrics) if metrics else labeler
    finally:
        await _close(labeler)
        if local is not None and _falls_back(settings):
            await _close(local)


async def _evaluators(
    settings: Settings,
    redis: Redis | None,
    stack: AsyncExitStack,
    *,
    telemetry: LabelerTelemetry,
    metrics: Sequence[CustomMetric],
    also: Sequence[CustomMetric],
) -> EvaluatorSet:
    built: list[tuple[Settings, Labeler]] = []
    evaluators = []
    for evaluator in settings.evaluators:
        own = settings.of_evaluator(evaluator)
        labeler = next((labeler for other, labeler in built if _share_labeler(own, other)), None)
        if labeler is None:
            try:
                labeler = await stack.enter_async_context(labeler_of(own, redis, telemetry=telemetry, also=also))
            except ConfigurationError as error:
                raise ConfigurationError(f"evaluator {evaluator.name}: {error}") from None
            built.append((own, labeler))
        bare = labeler.labeler if isinstance(labeler, WithMetrics) else labeler
        evaluators.append(evaluator_of(evaluator, labeler, bare))
    none: Labeler = NoLabeler()
    return EvaluatorSet(evaluators, WithMetrics(none, metrics) if metrics else none, wait=True)


def _share_labeler(first: Settings, second: Settings) -> bool:
    evaluators = [own.evaluator for own in (first, second) if own.evaluator is not None]
    # Criteria of its own stay those of its table, while others get those of the store.
    alone = any(evaluator.has_own_account or evaluator.has_own_criteria for evaluator in evaluators)
    tables = ("labeler", "judge", "cascade", "local", "models")
    return not alone and all(getattr(first, name) == getattr(second, name) for name in tables)


@asynccontextmanager
async def replaceable_labeler_of(
    settings: Settings,
    redis: Redis | None,
    *,
    telemetry: LabelerTelemetry | None = None,
    also: Sequence[CustomMetric] = (),
    count: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ReplaceableLabeler]:
    """Build the labeler of a worker, which takes other evaluators while it runs.

    Args:
        settings: as in `labeler_of`.
        redis: as in `labeler_of`.
        telemetry: as in `labeler_of`.
        also: as in `labeler_of`.
        count: called with `taken` or `refused` after each attempt to take other evaluators.

    Raises:
        ConfigurationError: as in `labeler_of`.
    """
    telemetry = telemetry or LabelerTelemetry()

    async def build(wanted: Settings, stack: AsyncExitStack) -> Labeler:
        return await stack.enter_async_context(labeler_of(wanted, redis, telemetry=telemetry, also=also))

    labeler = ReplaceableLabeler(build, count)
    try:
        await labeler.open(settings)
        yield labeler
    finally:
        await labeler.aclose()


class _Builder:
    def __init__(
        self,
        settings: Settings,
        redis: Redis | None,
        telemetry: LabelerTelemetry,
        *,
        models: Labeler | None,
        local: "LocalLabeler | None",
        answers: Path | None,
        account: "Spend | None",
    ) -> None:
        self._settings = settings
        self._redis = redis
        self._telemetry = telemetry
        self._models = models
        self._local = local
        self._answers = answers
        self._account = account

    def cascade(self, *, patient: bool) -> CascadeLabeler:
        cascade = self._settings.cascade
        wait = patient and cascade.when_unavailable == "wait"
        middle = self.one(cascade.middle) if cascade.middle else None
        suspected = None
        # A replay draws the same as before, so a workspace has the rates of its settings.
        if self._redis is not None and cascade.boost > 1 and workspace_of(self._settings.prefix) is None:
            suspected = SuspectedPipelines(self._redis, self._settings.layout.all(), for_s=cascade.boost_s)
        return CascadeLabeler(
            self.one(cascade.proxy),
            self.one(cascade.reference),
            cascade,
            wait=wait,
            middle=middle,
            suspected=suspected,
        )

    def one(self, name: str) -> Labeler:
        """Return a labeler by its name.

        Raises:
            ConfigurationError: no labeler has that name, or a setting that it needs is missing.
        """
        if name == "local" and self._local is not None:
            return self._local
        if name == "judge":
            return self._judge()
        if name == "model" and self._models is not None:
            return Bounded(self._models, LABEL_TIMEOUT_S)
        if name in IN_ONE_FILE:
            check_profiles(self._settings)
        services = Services(self._settings, self._redis, self._telemetry.services, self._answers, self._account)
        labeler = custom_labeler(IN_ONE_FILE.get(name, name), self._settings, services)
        if labeler is None:
            message = unknown("labeler", name, [*BUILT_IN, *installed_labelers()])
            raise ConfigurationError(f"{message}. To use one of your own, give module:attribute")
        return Bounded(labeler, LABEL_TIMEOUT_S)

    def _judge(self) -> Labeler:
        # The judge's client takes longer to import than most commands run.
        from .judge.labeler import make_judge  # noqa: PLC0415

        fallback = self._local if _falls_back(self._settings) else None
        return make_judge(
            self._settings,
            self._redis,
            self._telemetry.judge,
            fallback=fallback,
            answers=self._answers,
            account=self._account,
        )


def _falls_back(settings: Settings) -> bool:
    # In a cascade the proxy has scored already, so a judge over budget needs no fallback.
    return settings.labeler == "judge" and settings.judge.over_budget == "local"


async def _local(settings: Settings) -> "LocalLabeler":
    # They import NumPy, which a judge alone does not need.
    from .local.correction_file import load_correction  # noqa: PLC0415
    from .local.labeler import SHIPPED_VERSION, LocalLabeler  # noqa: PLC0415

    path = settings.local.model
    if path is None:
        return LocalLabeler()
    loaded, criteria = load_correction(path, SHIPPED_VERSION), settings.judge.criteria
    fitted = sorted([*loaded.content.scores, *loaded.content.criteria])
    log.info("fitted labeler loaded", file=str(path), sha256=loaded.sha256, scores=fitted)
    wanted = loaded.content.similarity_sha256
    if not wanted:
        return LocalLabeler(loaded, criteria=criteria)
    # It needs an extra, and only such a correction needs it.
    from .models.loading import sentence_encoder  # noqa: PLC0415

    if not settings.models.similarity:
        raise ConfigurationError(
            f"local.model = {str(path)!r} was fitted with a sentence encoder: set models.similarity to the encoder "
            f"with the digest {wanted[:16]}, or fit again without --similarity"
        )
    encoder = await sentence_encoder(settings)
    if encoder.session.files.digest != wanted:
        await encoder.aclose()
        raise ConfigurationError(
            f"local.model = {str(path)!r} was fitted with the sentence encoder {wanted[:16]}, and models.similarity is "
            f"{encoder.session.files.digest[:16]}: name that encoder, or fit again"
        )
    return LocalLabeler(loaded, encoder, criteria)


async def _models(settings: Settings) -> Labeler:
    # It needs an extra, and only this labeler needs it.
    from .models.labeler import ModelLabeler  # noqa: PLC0415
    from .models.loading import load_models  # noqa: PLC0415

    check_profiles(settings)
    return ModelLabeler(settings, await load_models(settings))


async def _close(labeler: Labeler) -> None:
    try:
        await run_limited(lambda: close(labeler), CLOSE_S)
    except Exception as error:  # noqa: BLE001 - a labeler may be a user's code: its error must not stop the rest
        log.warning("closing the labeler failed", labeler=labeler.name, error=error_text(error))
