"""Turns a model's numbers into probabilities. Pure.

Sources: Guo et al. (2017), "On Calibration of Modern Neural Networks", for the temperature; Platt (1999) for slope and
intercept.
"""

from collections.abc import Sequence
from math import inf
from typing import Annotated, Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

Floats = npt.NDArray[np.float64]

Number = Annotated[float, Field(allow_inf_nan=False)]

NAME: Final = "calibration.json"
"""File beside the model."""


class Calibration(BaseModel):
    """The calibration of a model: the probability is the logistic function of `slope` * log-odds + `intercept`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: Annotated[Number, Field(gt=0)] | None = None
    """The slope is its inverse; give this or `slope`."""
    slope: Annotated[Number, Field(gt=0)] | None = None
    """Factor of the log-odds; 1 without calibration."""
    intercept: Number = 0.0
    """Added to the log-odds; 0 without calibration."""

    @model_validator(mode="after")
    def _one_scale(self) -> Self:
        if self.temperature is not None and self.slope is not None:
            raise ValueError("has temperature and slope: keep one of them")
        return self

    @property
    def scale(self) -> float:
        """Factor of the log-odds."""
        if self.temperature is not None:
            return 1 / self.temperature
        return 1.0 if self.slope is None else self.slope

    def probabilities(self, log_odds: Floats) -> Floats:
        """Return the probabilities of log-odds.

        >>> Calibration(temperature=2.0).probabilities(np.array([0.0])).tolist()
        [0.5]
        """
        scaled: Floats = np.clip(self.scale * log_odds + self.intercept, -700, 700)
        return np.asarray(1 / (1 + np.exp(-scaled)), dtype=np.float64)


def log_odds(logits: npt.NDArray[np.float32], positive: Sequence[int]) -> Floats:
    """Return the log-odds of the positive labels, given the logits of all labels along the last axis.

    A model with one label gives the log-odds themselves.

    Args:
        logits: finite numbers.
        positive: indexes of the labels that count as positive.

    >>> log_odds(np.array([[0.0, 0.0]], dtype=np.float32), [1]).tolist()
    [0.0]
    """
    wide = logits.astype(np.float64)
    if wide.shape[-1] == 1:
        return np.asarray(wide[..., 0])
    chosen = np.zeros(wide.shape[-1], dtype=bool)
    chosen[list(positive)] = True
    return _log_sum(wide[..., chosen]) - _log_sum(wide[..., ~chosen])


def _log_sum(values: Floats) -> Floats:
    most = values.max(axis=-1, keepdims=True, initial=-inf)
    return np.asarray(most[..., 0] + np.log(np.exp(values - most).sum(axis=-1)))
