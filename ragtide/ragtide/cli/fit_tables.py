"""The result of `ragtide fit` as a table and sentences. Renderables only."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_offline.local_fit.fitting import FitResult, ScoreResult

from .fitting import Column, fitted, heading


def scores_table(result: FitResult, reference: str, width: int) -> RenderableType:
    """Return the figures of each score, shipped and fitted, with the difference: squared errors, or AUROCs."""
    rows = [_figures(one) for one in result.scores]
    names = ("shipped", "fitted", "gain" if result.spoilt else "difference")
    figures = [Column(name, [row[place] for row in rows], right=True) for place, name in enumerate(names)]
    columns = [
        Column("score", [one.score for one in result.scores]),
        *figures,
        Column(f"{result.confidence:.0%} interval", [row[3] for row in rows], stacks=True, yields=1),
        Column(
            "used",
            [
                Text("fitted", style="green") if one.is_fitted else Text("shipped", style="yellow")
                for one in result.scores
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
        *(f"{one.score} stays as shipped: {one.reason}." for one in result.scores if not one.is_fitted),
        *(f"{one.score} is surely better with similarity." for one in result.scores if one.reads_similarity),
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
    for one in result.scores:
        if (loss := one.cross_validated) is not None:
            yield (
                f"{one.score}, squared error on {loss.interactions:,} judged interactions: {loss.shipped:.4f} shipped, "
                f"{loss.fitted:.4f} fitted ({loss.lower:+.4f} to {loss.upper:+.4f})."
            )
    kept = [one.score for one in result.scores if one.is_fitted and one.cross_validated is None]
    if kept:
        yield (
            "Too few interactions are judged, so the level stays that of the shipped labeler, and no judge's scores "
            f"checked the fit: {', '.join(kept)}."
        )


def written(path: Path | None, digest: str | None) -> str:
    """Return the sentence after a fit that is better than shipped."""
    if path is None or digest is None:
        return "Dry run: nothing was written."
    return f"Written to {path} (SHA-256 {digest[:16]}…). Workers load it with local.model."


def not_written(result: FitResult) -> str:
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
