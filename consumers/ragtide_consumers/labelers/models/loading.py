"""Loads the models that the settings name, in a thread: it takes seconds, and other roles may run beside it.

The meaning of a model's labels comes from their names, or from a setting.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

import structlog
from pydantic import ValidationError

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import ModelsSettings
from ragtide_runtime.settings.model import Settings

from .calibration import NAME as CALIBRATION
from .calibration import Calibration
from .files import DIGEST_DIGITS, ModelConfig, ModelFiles, check_code, model_files
from .hub import download, hub_model, recorded_digest
from .pair_classifier import PairClassifier
from .pooling import SENTENCE_FILES, sentence_form
from .sentence_encoder import SentenceEncoder
from .session import ModelSession
from .token_classifier import TokenClassifier
from .tokens import MAX_INPUTS, OVERLAP

PAIRS: Final = "ForSequenceClassification"
"""End of the architecture of a pair classifier."""

TOKENS: Final = "ForTokenClassification"
"""End of the architecture of a token classifier."""

SENTENCES: Final = "Model"
"""End of the architecture of a sentence encoder."""

OPTIONAL: Final = {"support": (CALIBRATION,), "relevance": (CALIBRATION,), "similarity": SENTENCE_FILES}
"""Files that a model may have, by its setting."""

log = structlog.get_logger("ragtide.worker")


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """The models of the labeler `model`."""

    support: PairClassifier | TokenClassifier | None
    relevance: PairClassifier | None
    similarity: SentenceEncoder | None
    version: str
    """Digests of the models and of the settings that change scores."""


async def load_models(settings: Settings) -> LoadedModels:
    """Return the models of the settings.

    Raises:
        ConfigurationError: no model is named, or a model cannot be used.
    """
    models = settings.models
    places = {kind: str(getattr(models, kind)) for kind in OPTIONAL}
    if not any(places.values()):
        raise ConfigurationError(
            "the labeler model has no model: set support, relevance or similarity in the table [models] to a model's "
            "folder"
        )
    folders = {kind: await _folder(settings, kind) if place else "" for kind, place in places.items()}
    return await asyncio.to_thread(_load, models, folders)


async def sentence_encoder(settings: Settings) -> SentenceEncoder:
    """Return the sentence encoder of the settings alone.

    Raises:
        ConfigurationError: none is named, or it cannot be used.
    """
    if not settings.models.similarity:
        raise ConfigurationError(
            "no sentence encoder is named: set similarity in the table [models] to a model's folder, or to "
            "owner/name@COMMIT"
        )
    return await asyncio.to_thread(_similarity, settings.models, await _folder(settings, "similarity"))


async def _folder(settings: Settings, kind: str) -> str:
    models, setting = settings.models, f"models.{kind}"
    place = str(getattr(models, kind))
    model = hub_model(place, getattr(models, f"{kind}_file"), setting, OPTIONAL[kind])
    if model is None:
        return place
    return str(await download(model, models, cache_of(settings), setting))


def cache_of(settings: Settings) -> Path:
    """Return the folder of downloaded models."""
    return settings.models.cache_dir or settings.data_dir / "models"


def _load(settings: ModelsSettings, folders: Mapping[str, str]) -> LoadedModels:
    support = _support(settings, folders["support"]) if folders["support"] else None
    relevance = _relevance(settings, folders["relevance"]) if folders["relevance"] else None
    similarity = _similarity(settings, folders["similarity"]) if folders["similarity"] else None
    used = [("support", support), ("relevance", relevance), ("similarity", similarity)]
    digests = [f"{name}:{model.session.files.digest[:DIGEST_DIGITS]}" for name, model in used if model is not None]
    return LoadedModels(support, relevance, similarity, "+".join([*digests, _digest_of(settings)]))


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


def _similarity(settings: ModelsSettings, folder: str) -> SentenceEncoder:
    return SentenceEncoder(_session(_files("similarity", folder, settings), settings, (SENTENCES,)), settings)


def _files(kind: str, folder: str, settings: ModelsSettings) -> ModelFiles:
    setting = f"models.{kind}"
    files = model_files(
        folder,
        getattr(settings, f"{kind}_file"),
        setting=setting,
        sha256_begins=getattr(settings, f"{kind}_digest"),
        optional=OPTIONAL[kind],
    )
    recorded = recorded_digest(Path(folder))
    if recorded is not None and recorded != files.digest:
        raise ConfigurationError(
            f"{files.name} has the digest {files.digest}, and had {recorded} when it was downloaded: the files were "
            "changed, so delete the folder and start again"
        )
    calibration = getattr(settings, f"{kind}_calibration", None)
    return replace(files, calibration=_calibration(setting, calibration)) if calibration else files


def _calibration(setting: str, values: Mapping[str, float]) -> Calibration:
    try:
        return Calibration.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{setting}_calibration{where and f', {where}'}: {first['msg']}: correct it") from None


def check_support(config: ModelConfig, settings: ModelsSettings, name: str) -> None:
    """Check by its `config.json` whether a model can decide about support, before its weights are loaded.

    Args:
        config: of the model.
        settings: meaning of its labels.
        name: the model in words, for messages.

    Raises:
        ConfigurationError: it needs code of its own, is of another kind, or a label's meaning is unknown.
    """
    check_code(config, name)
    _checked_architecture(config, name, (PAIRS, TOKENS))
    if config.id2label is not None:
        labels = [label for _, label in sorted(config.id2label.items())]
        positive_labels(labels, settings.support_labels, SUPPORTED, setting="support_labels", model=name)


def _checked_architecture(config: ModelConfig, name: str, kinds: tuple[str, ...]) -> str:
    architecture = next(iter(config.architectures), "")
    if not architecture.endswith(kinds):
        raise ConfigurationError(
            f"{name} is of the architecture {architecture[:80] or 'none'}, by config.json: a model whose "
            f"architecture ends with {' or '.join(kinds)} is needed"
        )
    return architecture


def _session(files: ModelFiles, settings: ModelsSettings, kinds: tuple[str, ...]) -> ModelSession:
    architecture = _checked_architecture(files.config, files.name, kinds)
    form = sentence_form(files) if SENTENCES in kinds else None
    session = ModelSession(files, settings, per_token=architecture.endswith(TOKENS), form=form)
    log.info(
        "model loaded",
        model=str(files.onnx),
        sha256=files.digest,
        labels=session.labels,
        pooling=session.pooling,
        max_tokens=session.tokenizer.max_tokens,
        provider=settings.provider,
    )
    return session


def _digest_of(settings: ModelsSettings) -> str:
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
    )
    values = settings.model_dump(mode="json", include=set(names))
    fixed = [("overlap", OVERLAP), ("max_inputs", MAX_INPUTS)]  # they change scores, too
    return sha256(repr([*((name, values[name]) for name in names), *fixed]).encode()).hexdigest()[:8]


SUPPORTED: Final[Mapping[str, bool]] = {
    "entailment": True,
    "entailed": True,
    "supported": True,
    "consistent": True,
    "faithful": True,
    "factual": True,
    "neutral": False,
    "contradiction": False,
    "not_entailment": False,
    "not_supported": False,
    "unsupported": False,
    "inconsistent": False,
    "unfaithful": False,
    "hallucinated": False,
    "hallucination": False,
}
"""Whether a label says that a text is supported, by its name in lower case."""

RELEVANT: Final[Mapping[str, bool]] = {
    "relevant": True,
    "irrelevant": False,
    "not_relevant": False,
    "non_relevant": False,
}
"""Whether a label says that a text is relevant, by its name in lower case."""


def positive_labels(
    labels: Sequence[str], meaning_of_label: Mapping[str, str], known: Mapping[str, bool], *, setting: str, model: str
) -> tuple[int, ...]:
    """Return the indexes of the positive labels: supported, or relevant.

    Args:
        labels: names of the model's labels. A single label is positive.
        meaning_of_label: from the setting; it replaces the names' own meaning.
        known: meaning by name.
        setting: its name, for messages.

    Raises:
        ConfigurationError: the meaning of a label is unknown, or all have the same meaning.

    >>> positive_labels(["contradiction", "entailment"], {}, SUPPORTED, setting="support_labels", model="m")
    (1,)
    """
    strange = sorted(meaning_of_label.keys() - set(labels))
    if strange:
        raise ConfigurationError(
            f"models.{setting} names the label {strange[0]}, and {model} has {', '.join(labels)}: correct the setting"
        )
    if len(labels) == 1:
        return (0,)
    meanings = {label: known.get(meaning_of_label.get(label, label).lower()) for label in labels}
    unknown = [label for label, meaning in meanings.items() if meaning is None]
    if unknown:
        raise ConfigurationError(
            f"{model} has the label {unknown[0][:80]}, whose meaning is unknown: set models.{setting} for all of "
            f"{', '.join(labels)[:300]}"
        )
    positive = tuple(number for number, label in enumerate(labels) if meanings[label])
    if not 0 < len(positive) < len(labels):
        raise ConfigurationError(
            f"{model} has the labels {', '.join(labels)[:300]}, all of the same meaning: correct models.{setting}"
        )
    return positive
