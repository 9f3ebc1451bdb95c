"""Reads criteria from a TOML file: the settings, or a file with tables `[[judge.criteria]]` only."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.toml_file import read_toml
from ragtide_schemas.base import describe
from ragtide_schemas.criterion import CRITERIA_MAX, Criterion

from .checks import CriterionFinding


@dataclass(frozen=True, slots=True)
class CriteriaFile:
    """The criteria of a file."""

    criteria: tuple[Criterion, ...]
    findings: tuple[CriterionFinding, ...]
    """Tables that are no criteria, with their mistakes."""


def read_criteria(path: Path) -> CriteriaFile:
    """Return the criteria of a file, and the mistakes of those that cannot be read.

    Raises:
        ConfigurationError: the file cannot be read, is not TOML, or has no criteria.
    """
    if not path.is_file():
        raise ConfigurationError(f"{path} is no file: name a TOML file with tables [[judge.criteria]]")
    _, fields = read_toml(path)
    judge = fields.get("judge")
    tables = judge.get("criteria") if isinstance(judge, Mapping) else None
    if not isinstance(tables, list) or not tables:
        raise ConfigurationError(f"{path} has no table [[judge.criteria]]: add one with name, question and scale")
    criteria: list[Criterion] = []
    findings = []
    for number, table in enumerate(tables, 1):
        try:
            criteria.append(Criterion.model_validate(table))
        except ValidationError as error:
            name = table.get("name") if isinstance(table, Mapping) else None
            name = name[:64] if isinstance(name, str) and name else f"number {number}"
            findings.append(CriterionFinding(name, "error", "invalid", describe(error)))
    if len(tables) > CRITERIA_MAX:
        message = f"the file has {len(tables)} criteria, and a deployment has at most {CRITERIA_MAX}: remove some"
        findings.append(CriterionFinding(str(path), "error", "invalid", message))
    return CriteriaFile(tuple(criteria), tuple(findings))
