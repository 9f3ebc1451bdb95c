"""Loads the models that the settings name, in a thread: it takes seconds, and other roles may run beside it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

import structlog
from pydantic import ValidationError

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.models import ModelsSettings

from .calibration import Calibration
from .files import DIGEST_DIGITS, ModelFiles, model_files
from .hub import downloaded, hub_model, recorded_digest
from .label_meanings import RELEVANT, SUPPORTED, positive_labels
from .pair_classifier import PairClassifier
from .session import ModelSession
from .token_classifier import TokenClassifier

PAIRS: Final = "ForSequenceClassification"
"""End of the architecture of a pair classifier."""

TOKENS: Final = "ForTokenClassification"
"""End of the architecture of a token classifier."""

log = structlog.get_logger("ragtide.worker")


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """The models of the labeler `model`."""

    support: PairClassifier | TokenClassifier | None
    relevance: PairClassifier | None
    version: str
    """Digests of the models and of the settings that change scores."""


async def loaded_models(settings: Settings) -> LoadedModels:
    """Return the models of the settings.

    Raises:
        ConfigurationError: no model is named, or a model cannot be used.
    """
    models = settings.models
    if not models.support and not models.relevance:
        raise ConfigurationError(
            "the labeler model has no model: set support, relevance or both in the table [models] to a model's folder"
        )
    cache = models.cache_dir or settings.data_dir / "models"
    places = {}
    for setting, place, file in (
        ("models.support", models.support, models.support_file),
        ("models.relevance", models.relevance, models.relevance_file),
    ):
        model = hub_model(place, file, setting) if place else None
        places[setting] = place if model is None else str(await downloaded(model, models, cache, setting))
    return await asyncio.to_thread(_load, models, places["models.support"], places["models.relevance"])


def _load(settings: ModelsSettings, support_folder: str, relevance_folder: str) -> LoadedModels:
    support = _support(settings, support_folder) if support_folder else None
    relevance = _relevance(settings, relevance_folder) if relevance_folder else None
    used = [("support", support), ("relevance", relevance)]
    digests = [f"{name}:{one.session.files.digest[:DIGEST_DIGITS]}" for name, one in used if one is not None]
    return LoadedModels(support, relevance, "+".join([*digests, _digest_of(settings)]))


def _support(settings: ModelsSettings, folder: str) -> PairClassifier | TokenClassifier:
    files = _files("support", folder, settings)
    session = _session(files, settings, (PAIRS, TOKENS))
    positive = positive_labels(
        session.labels, settings.support_labels, SUPPORTED, setting="support_labels", model=files.name
    )
    if not session.per_token:
        return PairClassifier(session, settings, positive)
    if len(session.labels) == 1:
        raise ConfigurationError(
            f"{files.name} has a single label for each token: use a model with a label for each case"
        )
    return TokenClassifier(session, settings, positive)


def _relevance(settings: ModelsSettings, folder: str) -> PairClassifier:
    files = _files("relevance", folder, settings)
    session = _session(files, settings, (PAIRS,))
    positive = positive_labels(
        session.labels, settings.relevance_labels, RELEVANT, setting="relevance_labels", model=files.name
    )
    return PairClassifier(session, settings, positive)


def _files(kind: Literal["support", "relevance"], folder: str, settings: ModelsSettings) -> ModelFiles:
    file, begins, calibration = {
        "support": (settings.support_file, settings.support_digest, settings.support_calibration),
        "relevance": (settings.relevance_file, settings.relevance_digest, settings.relevance_calibration),
    }[kind]
    setting = f"models.{kind}"
    files = model_files(folder, file, setting=setting, sha256_begins=begins, max_bytes=settings.max_bytes)
    recorded = recorded_digest(Path(folder))
    if recorded is not None and recorded != files.digest:
        raise ConfigurationError(
            f"{files.name} has the digest {files.digest}, and had {recorded} when it was downloaded: the files were "
            "changed, so delete the folder and start again"
        )
    return replace(files, calibration=_calibration(setting, calibration)) if calibration else files


def _calibration(setting: str, values: Mapping[str, float]) -> Calibration:
    try:
        return Calibration.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{setting}_calibration{where and f', {where}'}: {first['msg']}: correct it") from None


def _session(files: ModelFiles, settings: ModelsSettings, kinds: tuple[str, ...]) -> ModelSession:
    architecture = next(iter(files.config.architectures), "")
    if not architecture.endswith(kinds):
        raise ConfigurationError(
            f"{files.name} is of the architecture {architecture[:80] or 'none'}, by config.json: a model whose "
            f"architecture ends with {' or '.join(kinds)} is needed"
        )
    session = ModelSession(files, settings, per_token=architecture.endswith(TOKENS))
    log.info(
        "model loaded",
        model=str(files.onnx),
        sha256=files.digest,
        labels=session.labels,
        max_tokens=session.tokenizer.max_tokens,
        provider=settings.provider,
    )
    return session


def _digest_of(settings: ModelsSettings) -> str:
    """Return eight digits that change with every setting that changes scores."""
    names = (
        "support_labels",
        "support_threshold",
        "support_prompt",
        "support_calibration",
        "relevance_calibration",
        "relevance_labels",
        "relevance_threshold",
        "publish",
        "languages",
        "max_tokens",
        "overlap",
        "max_inputs",
    )
    values = settings.model_dump(mode="json", include=set(names))
    return sha256(repr([(name, values[name]) for name in names]).encode()).hexdigest()[:8]
