"""How many judged items an interval of a wanted width takes, with the proxy's scores and without. Pure.

The interval is the one of the live estimates: the `asymptotic` confidence sequence of a prediction-powered mean, which
is valid at every look. With n judged of N interactions, variance s² of the judge's answers and correlation r of the
proxy with them, the variance of the estimate is s² ((1 - r²) / n + r² / N) for independent items.

In sessions or other clusters the items of one cluster are alike. An item is judged with probability n / N whatever its
cluster, so the expected number of pairs of judged items in one cluster is in proportion to (n / N)². Their covariances
therefore add s² d / N to the variance, whatever n is: more judged items do not make that part smaller. A present design
effect D, at n judged of N, gives d = (D - 1) N ((1 - r²) / n + r² / N).
Source: Kish (1965), "Survey Sampling", sections 5.4 and 8.2.
"""

from dataclasses import asdict, dataclass
from math import ceil, expm1, log1p
from typing import Any, Final

from ragtide_aggregator.estimates.would_see import Watched, would_see
from ragtide_aggregator.statistics.intervals.asymptotic import LEAST_OF_A_KIND, asymptotic_half_width
from ragtide_aggregator.statistics.intervals.pair_estimates import LEAST_CLUSTERS
from ragtide_schemas import Estimate

LEAST_JUDGED: Final = 2


@dataclass(frozen=True, slots=True)
class JudgedScale:
    """What is known about the judge's answers to a metric."""

    mean: float
    lowest: float
    highest: float
    deviation: float
    """Standard deviation of the answers."""
    correlation: float
    """Correlation of the proxy's scores with them; 0 without a proxy."""
    dependence: float = 0.0
    """d of the estimate with the proxy: what clusters add to the variance, times N / s²; 0 for independent items."""
    dependence_alone: float = 0.0
    """The same of the judged items alone."""
    cluster_items: float = 1.0
    """Interactions of a session or another cluster; 1 without clusters."""

    def _variance(self, judged: int, interactions: float, *, proxy: bool) -> tuple[float, float]:
        r2, dependence = (self.correlation**2, self.dependence) if proxy else (0.0, self.dependence_alone)
        independent = (1 - r2) / judged + r2 / interactions
        effect = 1 + dependence / interactions / independent
        return self.deviation**2 * independent * effect, effect

    def design_effect(self, judged: int, interactions: float, *, proxy: bool = True) -> float:
        """Return how many times larger clusters make the variance.

        Args:
            judged: number of judged items.
            interactions: number of all interactions, at least `judged`.
            proxy: whether the proxy scored all interactions.
        """
        return self._variance(judged, interactions, proxy=proxy)[1]

    def clusters(self, judged: int, interactions: float) -> float:
        """Return the expected number of clusters with a judged item; without clusters, that of judged items."""
        return judged / _judged_of_cluster(self.cluster_items, judged / interactions)

    def half_width(self, judged: int, interactions: float, *, confidence: float, proxy: bool = True) -> float:
        """Return half the width of the interval.

        Args:
            judged: number of judged items, at least 2.
            interactions: number of all interactions, at least `judged`.
            confidence: level in (0, 1).
            proxy: whether the proxy scored all interactions.
        """
        variance, _ = self._variance(judged, interactions, proxy=proxy)
        units = max(self.clusters(judged, interactions), LEAST_JUDGED)
        return float(asymptotic_half_width(variance * units**2 / (units - 1), units, confidence=confidence))

    def watched(self, rate: float, interactions_a_day: float) -> Watched:
        """Return the judge's values as a drift rule watches them.

        Args:
            rate: share of the interactions that is judged.
            interactions_a_day: of the pipeline.
        """
        width = self.highest - self.lowest
        return Watched((self.mean - self.lowest) / width, self.deviation / width, rate, interactions_a_day / 24)

    @property
    def least_judged(self) -> float:
        """Number of judged items below which there is no interval: they must be worth 30 at each end of the scale."""
        place = (self.mean - self.lowest) / (self.highest - self.lowest)
        rarer = min(place, 1 - place)
        return LEAST_OF_A_KIND / rarer if rarer > 0 else float("inf")

    def judged_for(self, half: float, interactions: int, *, confidence: float, proxy: bool = True) -> int | None:
        """Return the fewest judged items for an interval of that half width; None if all interactions are too few.

        Args:
            half: half of the wanted width, in the metric's unit, positive.
            interactions: number of all interactions.
            confidence: level in (0, 1).
            proxy: whether the proxy scored all interactions.
        """
        low, high = ceil(min(max(self.least_judged, LEAST_JUDGED), interactions)), interactions

        def is_narrow(judged: int) -> bool:
            if judged < self.least_judged * self.design_effect(judged, interactions, proxy=proxy):
                return False
            if self.cluster_items > 1 and self.clusters(judged, interactions) < LEAST_CLUSTERS:
                return False
            return self.half_width(judged, interactions, confidence=confidence, proxy=proxy) <= half

        if high < LEAST_JUDGED or not is_narrow(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_narrow(middle) else (middle + 1, high)
        return low


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """A sample for the judge that gives the wanted width."""

    judged: int
    """Number of judged items."""
    rate: float
    """Share of the interactions that is judged."""
    usd: float | None
    """US dollars of the judge's calls; None if the price is not known."""
    would_see: str | None = None
    """How many answers it takes to find a fall with this sample."""


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """Samples that give an interval of a wanted width after some days, with the proxy's scores and without."""

    metric: str
    half_width: float
    confidence: float
    days: float
    interactions: int
    """Number of interactions in these days."""
    scale: JudgedScale
    usd_each: float | None
    """US dollars of one judged item; None if the price is not known."""
    with_proxy: PlannedSample | None
    """None if the width is not reached though everything is judged, or if nothing is known about a proxy."""
    judged_alone: PlannedSample | None
    """None if the width is not reached though everything is judged."""

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as values that JSON can hold."""
        return {**asdict(self), "least_judged": self.scale.least_judged}


def sample_plan(
    metric: str,
    scale: JudgedScale,
    half_width: float,
    *,
    days: float,
    interactions_a_day: float,
    confidence: float,
    usd_each: float | None,
) -> SamplePlan:
    """Return the samples that give an interval of a wanted width after some days.

    Args:
        metric: its name.
        scale: what is known about the judge's answers.
        half_width: half of the wanted width, in the metric's unit.
        days: until the interval has that width.
        confidence: level of the interval.
        usd_each: US dollars of one judged item; None if the price is not known.
    """
    interactions = int(days * interactions_a_day)

    def sample(*, proxy: bool) -> PlannedSample | None:
        judged = scale.judged_for(half_width, interactions, confidence=confidence, proxy=proxy)
        if judged is None:
            return None
        rate, usd = judged / interactions, None if usd_each is None else judged * usd_each
        return PlannedSample(judged, rate, usd, would_see("judge", metric, scale.watched(rate, interactions_a_day), {}))

    return SamplePlan(
        metric, half_width, confidence, days, interactions, scale, usd_each,
        sample(proxy=True) if scale.correlation else None, sample(proxy=False),
    )  # fmt: skip


def scale_of(powered: Estimate, everything: int, weighted: Estimate | None = None) -> JudgedScale | None:
    """Return what a prediction-powered estimate shows about the judge's answers; None if it has no interval yet.

    The interval and `n_effective` give variance and correlation. Where an end of the interval is the end of the range,
    the variance is the largest that the mean allows, which is that of answers of yes and no.

    Args:
        powered: over all time, by the estimator `prediction_powered`.
        everything: number of interactions, with a score of the proxy or without.
        weighted: the estimate of the judged items alone, for the design effect of sessions in it; without it that of
            `powered` is taken.
    """
    lower, upper, mean, effective = powered.lower, powered.upper, powered.estimate, powered.n_effective
    lowest, highest = powered.value_range
    if lower is None or upper is None or mean is None or not effective or powered.n < LEAST_JUDGED:
        return None
    if lower <= lowest and upper >= highest:
        return None
    largest = (mean - lowest) * (highest - mean)
    variance = largest
    if lowest < lower and upper < highest:
        units = powered.n_clusters or powered.n + powered.n_absent
        unit = float(asymptotic_half_width(1.0, units, confidence=powered.confidence))
        influence = ((upper - lower) / 2 / unit) ** 2
        variance = min(influence * (units - 1) / units**2 * effective, largest)
    # Of the interactions that the judge can tell.
    interactions = max(round(everything * (powered.coverage or 1.0)), powered.n)
    effect = powered.design_effect or 1.0
    share = 1 - powered.n / interactions
    explained = (1 - min(powered.n / effective / effect, 1.0)) / share if share > 0 else 0.0
    r2 = min(max(explained, 0.0), 0.9999)
    alone = effect if weighted is None else weighted.design_effect or 1.0
    return JudgedScale(
        mean, lowest, highest, variance**0.5, r2**0.5,
        dependence=max(effect - 1, 0.0) * ((1 - r2) * interactions / powered.n + r2),
        dependence_alone=max(alone - 1, 0.0) * interactions / powered.n,
        cluster_items=_cluster_items(powered, interactions),
    )  # fmt: skip


def scale_of_mean(judged: Estimate) -> JudgedScale | None:
    """Return what the mean of a judge's answers shows about them, where no proxy scored the other interactions.

    Args:
        judged: over all time, by the estimator `mean`.
    """
    mean, deviation = judged.estimate, judged.standard_deviation
    lowest, highest = judged.value_range
    if mean is None or not deviation or not lowest < mean < highest or judged.n < LEAST_JUDGED:
        return None
    interactions = max(judged.n_traffic or 0.0, judged.n)
    dependence = max((judged.design_effect or 1.0) - 1, 0.0) * interactions / judged.n
    return JudgedScale(
        mean, lowest, highest, deviation, 0.0, dependence, dependence, _cluster_items(judged, interactions)
    )


def _cluster_items(estimate: Estimate, interactions: float) -> float:
    if not estimate.n_clusters or estimate.n_clusters >= estimate.n:
        return 1.0
    rate, wanted = estimate.n / interactions, estimate.n / estimate.n_clusters
    low, high = 1.0, wanted / rate
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _judged_of_cluster(middle, rate) < wanted else (low, middle)
    return low


def _judged_of_cluster(items: float, rate: float) -> float:
    if rate >= 1:
        return items
    return rate * items / -expm1(items * log1p(-rate))
