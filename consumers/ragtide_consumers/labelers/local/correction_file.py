"""The file of a fitted correction, which `ragtide fit` writes and workers load: JSON, checked before it is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas import InvalidEntryError
from ragtide_schemas.base import Name, Size, UtcTime, Value, WireInterval, WireModel
from ragtide_schemas.criterion import CRITERIA_MAX
from ragtide_schemas.metric_definitions import SIMILARITY
from ragtide_schemas.metric_names import MetricName

from .adjustment import Term
from .correction import INPUTS, Correction
from .criterion_proxies import PROXY_INPUTS, CriterionProxy
from .model import MODEL_FILE

FILE_MAX_BYTES: Final = 1_048_576
"""Most bytes of a file: a correction of all scores has about 50,000, and the proxy of a criterion about 15,000."""

FILE_VERSION: Final = 1
"""Version of the format that this release writes."""

DIGEST_DIGITS: Final = 16
"""Hexadecimal digits of the file's digest in the labeler's version."""

Share = Annotated[float, Field(ge=0, le=1)]
Difference = Annotated[float, Field(ge=-1, le=1)]


class CorrectionInput(WireModel):
    """One input of a correction."""

    coefficient: Value
    """Factor of the input."""
    lowest: Value
    """Smaller values of the input count as this."""
    highest: Value
    """Larger values of the input count as this."""

    @model_validator(mode="after")
    def _ends_are_in_order(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"lowest is {self.lowest:g} and highest is {self.highest:g}: fit the model again")
        return self


class CrossValidated(WireInterval[Difference]):
    """Squared errors of a score, each interaction predicted by a fit to the other questions."""

    interactions: Size
    """Number of interactions with this score."""
    questions: Size
    """Number of different questions."""
    shipped: Share
    """Mean squared error of the shipped labeler."""
    fitted: Share
    """Mean squared error of the fitted labeler."""
    difference: Difference
    """Mean of fitted minus shipped; negative if the fit is better."""


class Separated(WireInterval[Difference]):
    """AUROC of clean against spoilt interactions, each predicted by a fit to the other questions."""

    pairs: Size
    """Clean interactions with one spoilt version each."""
    questions: Size
    """Number of different questions."""
    corruptions: Size
    """Number of ways in which interactions were spoilt."""
    shipped: Share
    """AUROC of the shipped labeler: the mean over corruptions."""
    fitted: Share
    """AUROC of the fitted labeler."""
    gain: Difference
    """Fitted minus shipped; positive if the fit is better."""


class FittedScore(WireModel):
    """The correction of one score."""

    inputs: Annotated[dict[str, CorrectionInput], Field(min_length=1, max_length=len(INPUTS))]
    """The inputs by name."""
    cross_validated: CrossValidated | None = None
    """Squared errors on questions that the fit had not seen; None if none was judged."""
    separation: Separated | None = None
    """How much better the fit followed corruptions, on questions that it had not seen; None without spoilt ones."""


class AgainstConstant(WireInterval[Difference]):
    """Squared errors of a criterion's proxy, each interaction predicted by a fit to the other questions.

    The values of answers count as numbers from 0 to 1.
    """

    ends_follow = "difference"

    interactions: Size
    """Number of interactions with an answer of the judge."""
    questions: Size
    """Number of different questions."""
    constant: Share
    """Mean squared error of the mean value."""
    fitted: Share
    """Mean squared error of the proxy."""
    difference: Difference
    """Mean of fitted minus constant; negative if the proxy is better."""
    correlation: Difference
    """Correlation of the proxy's values with the judge's."""


class FittedProxy(WireModel):
    """The proxy of one criterion, and where its numbers come from."""

    version: Name
    """Version of the criterion: digest of its question, answers and needs. A proxy of another version is not used."""
    inputs: Annotated[dict[str, CorrectionInput], Field(min_length=1, max_length=len(PROXY_INPUTS))]
    """The inputs by name."""
    cross_validated: AgainstConstant
    """Its errors beside those of a constant, on questions that the fit had not seen."""
    fitted_at: UtcTime
    """Time of the fit."""
    source: Annotated[str, Field(max_length=1000)]
    """Where the interactions came from."""
    reference: Annotated[str, Field(max_length=1000)]
    """The judge, or the people, whose answers were learned."""
    last_occurred_at: UtcTime
    """Time of the newest interaction. Only later interactions are new to the fit."""


class CorrectionFile(WireModel):
    """A fitted correction of the local labeler."""

    max_bytes: ClassVar[int | None] = FILE_MAX_BYTES

    file_version: Literal[1] = FILE_VERSION
    """Version of this format."""
    labeler_version: Name
    """Version of the local labeler that it corrects."""
    model_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 of the shipped model that it corrects."""
    fitted_at: UtcTime
    """Time of the fit."""
    source: Annotated[str, Field(max_length=1000)]
    """Where the interactions came from."""
    reference: Annotated[str, Field(max_length=1000)]
    """The labeler or the people whose scores it was fitted to, and whether interactions were spoilt."""
    interactions: Size
    """Number of judged interactions; without any, of those that were spoilt."""
    questions: Size
    """Number of different questions."""
    first_occurred_at: UtcTime
    """Time of the oldest interaction."""
    last_occurred_at: UtcTime
    """Time of the newest interaction. Only later interactions are new to the fit."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Level of the intervals."""
    similarity_sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    """SHA-256 of the sentence encoder whose similarities are inputs; empty if there are none."""
    scores: dict[Literal["context_relevance", "context_utilization", "adherence"], FittedScore]
    """The corrected scores."""
    criteria: Annotated[dict[MetricName, FittedProxy], Field(max_length=CRITERIA_MAX)] = Field(default_factory=dict)
    """The proxies of criteria, by metric."""

    @model_validator(mode="after")
    def _has_numbers(self) -> Self:
        if not self.scores and not self.criteria:
            raise ValueError("scores and criteria are empty: fit again")
        return self

    @model_validator(mode="after")
    def _similarity_has_an_encoder(self) -> Self:
        similarity = {metric.name for metric in SIMILARITY}
        fits: tuple[FittedScore | FittedProxy, ...] = (*self.scores.values(), *self.criteria.values())
        if any(similarity & fitted.inputs.keys() for fitted in fits) != bool(self.similarity_sha256):
            raise ValueError("similarity_sha256 is there without inputs of similarity, or these without it: fit again")
        return self

    def correction(self) -> Correction:
        """Return the correction.

        Raises:
            ValueError: an input has a name that this release does not compute.
        """
        return Correction(
            {score: _terms(f"scores.{score}", fitted.inputs, INPUTS) for score, fitted in self.scores.items()}
        )

    def proxies(self) -> dict[str, CriterionProxy]:
        """Return the proxies of criteria, by metric.

        Raises:
            ValueError: an input has a name that this release does not compute.
        """
        return {
            metric: CriterionProxy(fitted.version, _terms(f"criteria.{metric}", fitted.inputs, PROXY_INPUTS))
            for metric, fitted in self.criteria.items()
        }


def _terms(field: str, inputs: Mapping[str, CorrectionInput], names: Sequence[str]) -> tuple[Term, ...]:
    place = {name: number for number, name in enumerate(names)}
    unknown = sorted(inputs.keys() - place.keys())
    if unknown:
        raise ValueError(f"{field}.inputs has {unknown[0][:80]!r}, which this release does not compute")
    return tuple(sorted(Term(place[name], fit.coefficient, fit.lowest, fit.highest) for name, fit in inputs.items()))


@dataclass(frozen=True, slots=True)
class LoadedCorrection:
    """A correction that was read from a file."""

    correction: Correction
    proxies: Mapping[str, CriterionProxy]
    """Proxies of criteria, by metric."""
    sha256: str
    """SHA-256 of the file, in hexadecimal digits."""
    content: CorrectionFile

    @property
    def version(self) -> str:
        """The part of the labeler's version that names the file."""
        return f"fit-{self.sha256[:DIGEST_DIGITS]}"


def load_correction(path: Path, labeler_version: str) -> LoadedCorrection:
    """Return the correction in a file.

    Args:
        labeler_version: version of the labeler that uses it.

    Raises:
        ConfigurationError: the file is missing, too large or damaged, or made for another version of the labeler.
    """
    name, again = f"local.model = {str(path)!r}", "fit the labeler again (ragtide fit)"
    try:
        with path.open("rb") as file:
            payload = file.read(FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigurationError(
            f"{name} does not exist: correct the path, or make the file with ragtide fit"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read ({error.strerror}): correct the path or its rights") from None
    if len(payload) > FILE_MAX_BYTES:
        raise ConfigurationError(
            f"{name} has more than {FILE_MAX_BYTES:,} bytes, so ragtide fit has not made it: correct the path"
        )
    try:
        content = CorrectionFile.decode(payload)
        correction, proxies = content.correction(), content.proxies()
    except InvalidEntryError as error:
        raise ConfigurationError(f"{name} is damaged or no model of ragtide fit ({error.detail}): {again}") from None
    except ValueError as error:
        raise ConfigurationError(f"{name} was made by another release ({error}): {again}") from None
    if content.labeler_version != labeler_version:
        raise ConfigurationError(
            f"{name} corrects version {content.labeler_version} of the local labeler, and this is version "
            f"{labeler_version}: {again}"
        )
    if content.model_sha256 != shipped_sha256():
        raise ConfigurationError(
            f"{name} corrects the shipped model {content.model_sha256[:DIGEST_DIGITS]}, and this release has "
            f"{shipped_sha256()[:DIGEST_DIGITS]}: {again}"
        )
    return LoadedCorrection(correction, proxies, sha256(payload).hexdigest(), content)


@cache
def shipped_sha256() -> str:
    """Return the SHA-256 of the shipped model, in hexadecimal digits."""
    return sha256(files(__package__).joinpath(MODEL_FILE).read_bytes()).hexdigest()
