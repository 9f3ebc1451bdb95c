"""Prediction-powered means: from reference scores of a weighted sample, and proxy scores of all items.

Let f be the proxy score, known for all N items, and y the reference score (of a judge or a person), known for n of
them, each chosen with a known probability 1 / w. For any k the estimate

    theta = k mean_all(f) + sum w (y - k f) / sum w

is correct for any proxy labeler. With k = 0 it is the plain weighted mean of y. The better f predicts y, the more
sampling error is removed by k = cov(y, f) / var(f). The n items are among the N items, so

    var(theta) = sum w^2 (r - mean r)^2 / (sum w)^2 + k^2 var(f) / N,   r = y - k f,

because with this k the proxy score and r have no covariance.

Source: Angelopoulos, Duchi, Zrnic (2023), "PPI++: Efficient prediction-powered inference", arXiv:2311.01453, section 6.
There the N items do not include the n; with N + n for their N, its k / (1 + n / N) is the k here.
Weighted: Hajek's ratio estimate, Sarndal, Swensson, Wretman (1992), Model Assisted Survey Sampling, sections 5.7, 6.4.
"""

from typing import Final

import numpy as np

from ..intervals.asymptotic import enough
from ..intervals.pair_estimates import Fitted, Powered, fitted
from ..means.moments import Moments
from ..tables.batches import Floats, Rows
from ..tables.row_table import ADD, RowColumn, RowTable
from ..tables.tables import checked

TERMS: Final = 13
"""Sums over pairs."""


def pair_terms(reference: Floats, proxy: Floats, probability: Floats) -> Floats:
    """Return what each pair adds to the sums, shape (TERMS, n)."""
    w = 1 / probability
    products = np.stack([reference, proxy, reference**2, proxy**2, reference * proxy])
    return np.concatenate([np.stack([np.ones_like(w), w, w**2]), w * products, w**2 * products])


class PairTable(RowTable, version=1, what="pairs", capacity=16):
    """Weighted sums of pairs of a reference and a proxy score, one row per key; rows are merged by addition."""

    # Number of pairs, sums of w and w^2; with w and with w^2: sums of y, f, y^2, f^2, y f.
    _sums = RowColumn(np.float64, (TERMS,), merge=ADD, least=0.0)

    def update(self, rows: Rows, reference: Floats, proxy: Floats, probability: Floats) -> None:
        """Add pairs to rows, in order; a row may occur more than once.

        Args:
            rows: row of each pair, shape (n,).
            reference: reference scores in [0, 1], same shape.
            proxy: proxy scores in [0, 1], same shape.
            probability: probability with which each item was chosen for a reference score, in (0, 1], same shape.

        Raises: ValueError for a score or a probability out of its range; nothing is added then.
        """
        checked(reference)
        checked(proxy)
        if not np.all((probability > 0) & (probability <= 1)):
            raise ValueError("a probability is not in (0, 1]: give the probability with which each item was chosen")
        terms = pair_terms(reference, proxy, probability)
        # Added in order within a row, so that the sums do not depend on how pairs were cut into batches.
        for quantity, added in zip(self._sums, terms, strict=True):
            np.add.at(quantity, rows, added)

    def set_sums(self, row: int, totals: Floats) -> None:
        """Set the sums of a row; shape (TERMS,)."""
        self._sums[:, row] = totals

    def n(self, row: int) -> int:
        """Return the number of pairs of a row."""
        return int(self._sums[0, row])

    def fit(self, rows: Rows, everything: Moments | None) -> Fitted:
        """Return the estimates of rows (`fitted`).

        Args:
            rows: rows to estimate.
            everything: moments of the proxy scores of all items, one element per row; None for the weighted mean.
        """
        return fitted(
            self._sums[:, rows], None if everything is None else (everything.mean, everything.n.astype(np.float64))
        )

    def read(self, rows: Rows, everything: Moments | None, *, confidence: float) -> Powered:
        """Return the estimates of rows.

        Args:
            rows: rows to estimate.
            everything: moments of the proxy scores of all items, one element per row; None for the weighted mean.
            confidence: level in (0, 1); the intervals hold at every n at once, from `enough` pairs on.
        """
        fitted = self.fit(rows, everything)
        trusted = enough(fitted.mean, fitted.items)
        return fitted.powered(fitted.variance, fitted.n, trusted, confidence=confidence)

    def sums(self, row: int) -> Floats:
        """Return the sums of a row: number of pairs, w, w^2; with w and with w^2: y, f, y^2, f^2, y f; shape (13,)."""
        return self._sums[:, row]
