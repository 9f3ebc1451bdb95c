"""The result of `ragtide fit` as a table and sentences. Renderables only."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_offline.local_fit.fitting import FitResult

from .fitting import Column, fitted, heading


def scores_table(result: FitResult, reference: str, width: int) -> RenderableType:
    """Return the squared errors of each score, shipped and fitted, with the difference."""
    found = [(one, one.cross_validated) for one in result.scores]
    columns = [
        Column("score", [one.score for one, _ in found]),
        Column("shipped", ["" if loss is None else f"{loss.shipped:.4f}" for _, loss in found], right=True),
        Column("fitted", ["" if loss is None else f"{loss.fitted:.4f}" for _, loss in found], right=True),
        Column("difference", ["" if loss is None else f"{loss.difference:+.4f}" for _, loss in found], right=True),
        Column(
            f"{result.confidence:.0%} interval",
            ["" if loss is None else f"{loss.lower:+.4f} to {loss.upper:+.4f}" for _, loss in found],
            stacks=True,
            yields=1,
        ),
        Column(
            "used",
            [Text("fitted", style="green") if one.is_fitted else Text("shipped", style="yellow") for one, _ in found],
        ),
    ]
    return Group(heading([f"{result.interactions:,} interactions", reference], width), fitted(columns, width))


def decisions(result: FitResult, missing: int) -> Sequence[str]:
    """Return sentences about the errors, the decisions, and interactions that were not used."""
    sentences = [
        f"Mean squared errors; each of {result.questions:,} questions was predicted by a fit to others.",
        *(f"{one.score} stays as shipped: {one.reason}." for one in result.scores if not one.is_fitted),
        *(f"{one.score} is surely better with similarity." for one in result.scores if one.reads_similarity),
    ]
    if result.unused:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(result.unused.items()))
        sentences.append(f"Not used: {reasons}.")
    if missing:
        sentences.append(f"Not used: {missing:,} whose texts were not found.")
    return sentences


def written(path: Path | None, digest: str | None) -> str:
    """Return the sentence after a fit that is better than shipped."""
    if path is None or digest is None:
        return "Dry run: nothing was written."
    return f"Written to {path} (SHA-256 {digest[:16]}…). Workers load it with local.model."


def not_written(result: FitResult) -> str:
    """Return the sentence after a fit that is not better than shipped."""
    return (
        f"No score is surely better than the shipped labeler's on {result.questions:,} questions, so nothing was "
        "written: keep the shipped labeler, or judge more interactions"
    )
