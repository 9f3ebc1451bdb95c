"""Loads the models that the settings name, in a thread: it takes seconds, and other roles may run beside it."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import structlog

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.models import ModelsSettings

from .files import ModelFiles, model_files
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
    return await asyncio.to_thread(_load, models)


def _load(settings: ModelsSettings) -> LoadedModels:
    support = _support(settings) if settings.support else None
    relevance = _relevance(settings) if settings.relevance else None
    used = [("support", support), ("relevance", relevance)]
    digests = [f"{name}:{one.session.files.digest[:16]}" for name, one in used if one is not None]
    return LoadedModels(support, relevance, "+".join([*digests, _digest_of(settings)]))


def _support(settings: ModelsSettings) -> PairClassifier | TokenClassifier:
    files = model_files(
        settings.support,
        settings.support_file,
        setting="models.support",
        sha256_begins=settings.support_digest,
        max_bytes=settings.max_bytes,
    )
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


def _relevance(settings: ModelsSettings) -> PairClassifier:
    files = model_files(
        settings.relevance,
        settings.relevance_file,
        setting="models.relevance",
        sha256_begins=settings.relevance_digest,
        max_bytes=settings.max_bytes,
    )
    session = _session(files, settings, (PAIRS,))
    positive = positive_labels(
        session.labels, settings.relevance_labels, RELEVANT, setting="relevance_labels", model=files.name
    )
    return PairClassifier(session, settings, positive)


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
