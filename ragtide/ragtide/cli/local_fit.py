"""A fit of the local labeler: its sources, and its result as a table and sentences."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import typer
from redis.asyncio import Redis
from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_consumers.labelers.local.correction_file import CorrectionFile, load_correction
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_offline.agreement.predictions import read_predictions
from ragtide_offline.annotation.annotated import chosen_of_annotations
from ragtide_offline.annotation.annotations import StoredAnnotations
from ragtide_offline.datasets.rows import write_new
from ragtide_offline.local_fit.criterion_fit import CriterionFit
from ragtide_offline.local_fit.examined import (
    ExaminedInteractions,
    ExaminedPair,
    Similar,
    TrafficSample,
    examine,
    examine_pairs,
)
from ragtide_offline.local_fit.fitting import FitResult, ScoreResult
from ragtide_offline.local_fit.sources import GatheredInteractions, WantedScores, of_rows, of_specimens
from ragtide_offline.replay.selection import Selection
from ragtide_producers import FileOptions, read_rows
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now
from ragtide_schemas.criterion import Criterion

from .console import err, out, print_json, warn
from .file_rows import Problems
from .fitting import Column, fitted, heading
from .output_files import exists_already
from .progress import progress_bar
from .with_redis import with_redis

REFUSED: Final = 4
"""Exit code if no score is better than shipped, as of a gate that fails."""


@contextmanager
def similarity_encoder(settings: Settings) -> Iterator[tuple[Similar | None, str]]:
    """Yield the sentence encoder of the settings, and its digest."""
    # It needs an extra, and only this option needs it.
    from ragtide_consumers.labelers.models.loading import sentence_encoder  # noqa: PLC0415

    with asyncio.Runner() as runner:
        encoder = runner.run(sentence_encoder(settings))
        try:
            yield (lambda sentences: runner.run(encoder.inputs(sentences))), encoder.session.files.digest
        finally:
            runner.run(encoder.aclose())


def finish_fit(
    result: FitResult,
    found: GatheredInteractions,
    source: str,
    path: Path | None,
    encoder_digest: str,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Write the file, print the result, and end with the exit code. Proxies in a file that is replaced stay."""
    before = None if path is None else _readable(path)
    content = None
    if result.fitted:
        content = result.file(
            source=source,
            reference=found.words,
            fitted_at=utc_now(),
            similarity_sha256=encoder_digest,
            before=before,
        )
    digest = None
    if content is not None and path is not None:
        digest = _write(path, content.encode().decode() + "\n", force=force)
    if as_json:
        _print_result(result, found, source, path, digest)
    else:
        out.print(scores_table(result, found.words, out.width))
        for sentence in decisions(result, found.missing):
            out.print(sentence, style="bright_black", highlight=False, soft_wrap=False)
    if content is None:
        err.print(sentence_without_file(result), style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(REFUSED)
    if not as_json:
        out.print(sentence_of_file(path, digest), highlight=False)
        if content.criteria:
            out.print(f"Proxies of criteria stay: {', '.join(sorted(content.criteria))}.", highlight=False)


def _readable(path: Path) -> CorrectionFile | None:
    """Return the content of a file that is replaced; None if there is none, or if its proxies could not be used."""
    if not path.exists():
        return None
    try:
        return load_correction(path, SHIPPED_VERSION).content
    except ConfigurationError as error:
        warn(f"Proxies of criteria that {path} may have are not kept: {error}")
        return None


def _print_result(
    result: FitResult | CriterionFit, found: GatheredInteractions, source: str, path: Path | None, digest: str | None
) -> None:
    print_json(
        {
            **result.as_dict(),
            "source": source,
            "reference": found.words,
            "texts_missing": found.missing,
            "file": None if digest is None else str(path),
            "sha256": digest,
        }
    )


def _write(path: Path, text: str, *, force: bool) -> str:
    try:
        write_new(path, text, force=force)
    except FileExistsError:
        raise ConfigurationError(exists_already(path)) from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written ({error.strerror}): give another --output") from None
    return sha256(text.encode()).hexdigest()


def file_before(path: Path, criterion: Criterion, *, force: bool) -> CorrectionFile | None:
    """Return the content of a file to which a proxy is added; None if there is no file.

    Raises:
        ConfigurationError: it is no such file, or it has a proxy of this criterion and must not lose it.
    """
    if not path.exists():
        return None
    content = load_correction(path, SHIPPED_VERSION).content
    if criterion.metric in content.criteria and not force:
        raise ConfigurationError(
            f"{path} has a proxy of {criterion.name} already: give --force to replace it, or another --output"
        )
    return content


def finish_criterion_fit(
    result: CriterionFit,
    found: GatheredInteractions,
    source: str,
    path: Path | None,
    encoder_digest: str,
    *,
    before: CorrectionFile | None,
    as_json: bool,
) -> None:
    """Write the file with the proxy of a criterion, print the result, and end with the exit code."""
    digest = None
    if result.regression is not None and path is not None:
        proxy = result.proxy(source=source, reference=found.words, fitted_at=utc_now())
        content = result.file(before, proxy, similarity_sha256=encoder_digest)
        digest = _write(path, content.encode().decode() + "\n", force=before is not None)
    if as_json:
        _print_result(result, found, source, path, digest)
    else:
        for sentence in criterion_sentences(result, found):
            out.print(sentence, highlight=False, soft_wrap=False)
    if result.regression is None:
        err.print(
            f"The proxy of {result.criterion.name} does not surely beat a constant on {result.questions:,} questions, "
            "so nothing was written: the judged items alone give the estimate; judge more interactions to try again",
            style="red",
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(REFUSED)
    if not as_json:
        out.print(sentence_of_file(path, digest), highlight=False)


def criterion_sentences(result: CriterionFit, found: GatheredInteractions) -> Iterator[str]:
    """Yield sentences about the proxy of a criterion and its errors."""
    loss = result.cross_validated
    yield f"{result.criterion.metric}: {loss.interactions:,} answers by {found.reference.words}"
    yield (
        f"Mean squared error: {loss.shipped:.4f} of a constant, {loss.fitted:.4f} of the proxy; difference "
        f"{loss.difference:+.4f} ({result.confidence:.0%} interval {loss.lower:+.4f} to {loss.upper:+.4f}). Each of "
        f"{result.questions:,} questions was predicted by a fit to others."
    )
    yield (
        f"Correlation with the judge: {result.correlation:.2f}. If few interactions are judged, the prediction-powered "
        f"interval is {result.width:.2f} times as wide as that of the judged items alone."
    )
    if result.reads_similarity:
        yield "The proxy is surely better with similarity."
    if result.unused:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(result.unused.items()))
        yield f"Not used: {reasons}."
    if found.missing:
        yield f"Not used: {found.missing:,} whose texts were not found."


def judged_of_file(
    file: str,
    files: FileOptions,
    chosen: Selection,
    *,
    judged: Path | None,
    run: str | None,
    reference: str | None,
    traffic: TrafficSample | None,
    wanted: WantedScores,
) -> GatheredInteractions:
    """Return the judged interactions of a file; print the problems of its rows."""
    predictions = [] if judged is None else read_predictions(judged)
    problems = Problems(err, file)
    rows = []
    for row in read_rows(file, files):
        if row.interaction is None:
            problems.add(row.line, row.problem or "")
        elif chosen.takes(row.interaction) and run in {None, row.interaction.run}:
            rows.append(row)
    problems.sum_up()
    return of_rows(rows, predictions, reference, traffic=traffic, wanted=wanted)


def judged_of_kept_items(
    settings: Settings,
    chosen: Selection,
    *,
    run: str | None,
    reference: str | None,
    traffic: TrafficSample | None,
    wanted: WantedScores,
) -> GatheredInteractions:
    """Return the judged interactions among the items that the deployment keeps."""

    async def body(redis: Redis, _: RedisHandle) -> GatheredInteractions:
        kept = KeptSpecimens(redis, settings.layout)
        judged = [specimen for name in await kept.pipelines() for specimen in await kept.judged(name)]
        if traffic is not None:
            for name in await kept.pipelines():
                for specimen in await kept.sample(name):
                    if chosen.takes(specimen.interaction) and run in {None, specimen.interaction.run}:
                        traffic.add(specimen.interaction)
        annotations = await StoredAnnotations(redis, settings.prefix).read()
        annotated = (await chosen_of_annotations(kept, annotations)).chosen
        warn(*filter(None, [kept.unreadable.warning()]))
        return of_specimens(
            [specimen for specimen in judged if chosen.takes(specimen.interaction)],
            [
                (item.specimen, item.gold_scores, float(item.reasons[0]["inclusion_probability"]))
                for item in annotated
                if chosen.takes(item.specimen.interaction)
            ],
            run=run,
            reference=reference,
            traffic=traffic,
            wanted=wanted,
        )

    return with_redis(settings, body)


def examined_interactions(
    found: GatheredInteractions, similar: Similar | None, criterion: Criterion | None = None
) -> ExaminedInteractions:
    """Return the interactions as the fit reads them, with a progress bar."""
    with progress_bar("reading", len(found.found)) as show:
        done = 0

        def counted() -> None:
            nonlocal done
            done += 1
            show(done)

        return examine(found.found, counted, similar=similar, criterion=criterion)


def spoilt_pairs(found: GatheredInteractions, similar: Similar | None) -> list[ExaminedPair]:
    """Return clean and spoilt interactions, with a progress bar."""
    with progress_bar("spoiling", len(found.traffic)) as show:
        done = 0

        def counted() -> None:
            nonlocal done
            done += 1
            show(done)

        return examine_pairs(found.traffic, counted, similar=similar)


def scores_table(result: FitResult, reference: str, width: int) -> RenderableType:
    """Return the figures of each score, shipped and fitted, with the difference: squared errors, or AUROCs."""
    rows = [_figures(score) for score in result.scores]
    names = ("shipped", "fitted", "gain" if result.spoilt else "difference")
    figures = [Column(name, [row[place] for row in rows], right=True) for place, name in enumerate(names)]
    columns = [
        Column("score", [score.score for score in result.scores]),
        *figures,
        Column(f"{result.confidence:.0%} interval", [row[3] for row in rows], stacks=True, yields=1),
        Column(
            "used",
            [
                Text("fitted", style="green") if score.is_fitted else Text("shipped", style="yellow")
                for score in result.scores
            ],
        ),
    ]
    title = "AUROC of spoilt interactions" if result.spoilt else "mean squared errors"
    return Group(heading([title, f"{result.interactions:,} interactions", reference], width), fitted(columns, width))


def _figures(score: ScoreResult) -> tuple[str, str, str, str]:
    """Return the shipped figure, the fitted one, the difference and its interval."""
    if (found := score.separation) is not None:
        interval = f"{found.lower:+.3f} to {found.upper:+.3f}"
        return f"{found.shipped:.3f}", f"{found.fitted:.3f}", f"{found.gain:+.3f}", interval
    if (loss := score.cross_validated) is not None:
        interval = f"{loss.lower:+.4f} to {loss.upper:+.4f}"
        return f"{loss.shipped:.4f}", f"{loss.fitted:.4f}", f"{loss.difference:+.4f}", interval
    return "", "", "", ""


def decisions(result: FitResult, missing: int) -> Sequence[str]:
    """Return sentences about the errors, the decisions, and interactions that were not used."""
    sentences = [
        *_meaning(result),
        *(f"{score.score} stays as shipped: {score.reason}." for score in result.scores if not score.is_fitted),
        *(f"{score.score} is surely better with similarity." for score in result.scores if score.reads_similarity),
    ]
    if result.unused:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(result.unused.items()))
        sentences.append(f"Not used: {reasons}.")
    if missing:
        sentences.append(f"Not used: {missing:,} whose texts were not found.")
    return sentences


def _meaning(result: FitResult) -> Iterator[str]:
    """Yield sentences that say what the figures are."""
    if not result.spoilt:
        yield f"Mean squared errors; each of {result.questions:,} questions was predicted by a fit to others."
        return
    yield (
        "AUROC: how often a clean interaction has a higher score than a spoilt one, the mean over the corruptions that "
        f"a score should follow. {result.spoilt:,} interactions were spoilt; each question was predicted by a fit to "
        "others."
    )
    for score in result.scores:
        if (loss := score.cross_validated) is not None:
            yield (
                f"{score.score}, squared error on {loss.interactions:,} judged interactions: "
                f"{loss.shipped:.4f} shipped, "
                f"{loss.fitted:.4f} fitted ({loss.lower:+.4f} to {loss.upper:+.4f})."
            )
    kept = [score.score for score in result.scores if score.is_fitted and score.cross_validated is None]
    if kept:
        yield (
            "Too few interactions are judged, so the level stays that of the shipped labeler, and no judge's scores "
            f"checked the fit: {', '.join(kept)}."
        )


def sentence_of_file(path: Path | None, digest: str | None) -> str:
    """Return the sentence after a fit that is better than shipped."""
    if path is None or digest is None:
        return "Dry run: nothing was written."
    return f"Written to {path} (SHA-256 {digest[:16]}…). Workers load it with local.model."


def sentence_without_file(result: FitResult) -> str:
    """Return the sentence after a fit that is not better than shipped."""
    if result.spoilt:
        return (
            f"No score surely follows corruptions better than the shipped labeler's on {result.questions:,} questions, "
            "so nothing was written: keep the shipped labeler, or give more interactions"
        )
    return (
        f"No score is surely better than the shipped labeler's on {result.questions:,} questions, so nothing was "
        "written: keep the shipped labeler, or judge more interactions"
    )
