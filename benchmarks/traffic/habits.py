"""Schedules as users make them: sessions of different length, few users who ask much, days, bursts, outages.

Sources of the parameters, looked up in November 2026; "assumed" where no figure is published:

- WildChat: Zhao et al. (2024), "WildChat: 1M ChatGPT Interaction Logs in the Wild", ICLR, arXiv:2405.01470: a million
  conversations with over 2.5 million turns.
- LMSYS-Chat-1M: Zheng et al. (2024), ICLR, arXiv:2309.11998: a million conversations from 210 thousand addresses.
- ShareChat: Yan et al. (2025), arXiv:2512.17843, table 1: mean turns of ShareGPT, 3.51.
- Azure 2023: Azure LLM inference trace of 2023 (github.com/Azure/AzurePublicDataset; Patel et al. 2024, "Splitwise",
  ISCA): of its 19,366 requests of conversations, the distances have a coefficient of variation of 1.09.
- ServeGen: Xiang et al. (2025), arXiv:2505.09999, data of m-large (github.com/alibaba/ServeGen): 38 of 162 clients send
  90% of the requests; coefficient of variation of a client's distances 1.2 (median) and 3.4 (weighted by requests);
  within a day the rate of ten minutes is 0.37 to 0.81 of the day's mean at the least, 1.2 to 2.7 at the most.
- Chu et al. (2025), "An Empirical Characterization of Outages and Incidents in Public Services for Large Language
  Models", ICPE, arXiv:2501.12469, data of the OpenAI API (github.com/atlarge-research/llm-service-analysis): an
  incident every 5.5 days; it takes 75 minutes (median), 154 (mean).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .schedules import DAY_S, PER_DAY
from .stream import Codes, Floats, Schedule

_HOUR_S: Final = 3_600.0
_STEP_S: Final = 300.0
"""Width of the table by which operational time becomes clock time."""


@dataclass(frozen=True)
class Habits:
    """Parameters of a schedule. The defaults are a chat."""

    turns: float = 2.5
    """Mean interactions of a session. WildChat: 2.5; LMSYS-Chat-1M has 2.0, ShareGPT 3.5. Geometric: assumed."""
    sessions_per_user: float = 4.75
    """Mean sessions of a user. LMSYS-Chat-1M: 1,000,000 / 210,479."""
    user_spread: float = 1.0
    """Standard deviation of the log of how much a user asks. Assumed for persons; of clients 2.0 gives ServeGen's 38 of
    162 with 90%."""
    gap_s: float = 60.0
    """Median time from a turn to the next. Assumed."""
    gap_spread: float = 1.0
    """Standard deviation of its log. Assumed."""
    arrival_cv: float = 1.1
    """Coefficient of variation of the distances of sessions; Gamma. Azure 2023: 1.09 for requests."""
    day_swing: float = 0.6
    """Amplitude of the rate over a day; 1 is from nothing to twice the mean. Order of magnitude of ServeGen."""
    loops: float = 0.0
    """Share of sessions that ask nearly the same again and again, such as tests and retries."""
    loop_turns: int = 20
    """Their length. Assumed."""
    loop_gap_s: float = 5.0
    """Their median time from a turn to the next. Assumed."""
    outage_every_s: float | None = None
    """Mean time from an outage to the next; None for none. Chu et al.: 5.5 days."""
    outage_s: float = 75 * 60.0
    """Median length of an outage. Chu et al.: 75 minutes."""
    outage_spread: float = 1.2
    """Standard deviation of the log of the length: sqrt(2 log(154 / 75)), from Chu et al."""
    retry_s: float = 300.0
    """Users repeat the questions of an outage within this time after its end. Assumed."""
    as_batches: bool = False
    """Turns are interactions that a customer sent together, and sessions of their own."""


def habitual(rng: np.random.Generator, runs: int, n: int, *, habits: Habits) -> Schedule:
    """Return a schedule of the habits; runs are independent of each other."""
    parts = [_run(rng, n, habits) for _ in range(runs)]
    time_s, session, turn, user = (np.stack([part[place] for part in parts]) for place in range(4))
    own = np.broadcast_to(np.arange(n, dtype=np.int64), (runs, n))
    if habits.as_batches:
        return Schedule(time_s, own, np.zeros_like(own), user.astype(np.int64), session.astype(np.int64))
    return Schedule(time_s, session.astype(np.int64), turn.astype(np.int64), user.astype(np.int64), own)


def _run(rng: np.random.Generator, n: int, habits: Habits) -> tuple[Floats, Floats, Floats, Floats]:
    """Return time, session, turn and user of the first n interactions of one run."""
    mean_turns = (1 - habits.loops) * habits.turns + habits.loops * habits.loop_turns
    # More than are needed: those that run on after the last interaction, and two days, for an outage at the end.
    count = int((1.3 * n + 2 * PER_DAY) / mean_turns) + 100
    starts = _starts(rng, count, PER_DAY / mean_turns, habits)
    loop = rng.random(count) < habits.loops
    turns = np.where(loop, habits.loop_turns, rng.geometric(1 / habits.turns, count))
    session = np.repeat(np.arange(count), turns)
    place = np.arange(session.size) - np.repeat(np.cumsum(turns) - turns, turns)
    medians = np.where(loop, habits.loop_gap_s, habits.gap_s)[session]
    gaps = np.where(place > 0, medians * np.exp(habits.gap_spread * rng.standard_normal(session.size)), 0.0)
    since = np.cumsum(gaps)
    times = starts[session] + since - since[np.cumsum(turns) - turns][session]
    times = _after_outages(rng, times, habits)
    order = np.argsort(times, kind="stable")[:n]
    if order.size < n or times[order[-1]] > starts[-1]:
        raise RuntimeError(f"{count} sessions are too few for {n} interactions")
    user = _users(rng, count, habits)
    return times[order], session[order].astype(float), place[order].astype(float), user[session[order]].astype(float)


def _starts(rng: np.random.Generator, count: int, per_day: float, habits: Habits) -> Floats:
    """Return when sessions begin: a renewal process whose clock runs faster by day."""
    shape = 1 / habits.arrival_cv**2
    operational = np.cumsum(rng.gamma(shape, DAY_S / per_day / shape, count))
    clock = np.arange(0.0, operational[-1] + DAY_S, _STEP_S)
    angle = 2 * np.pi / DAY_S
    passed = clock + habits.day_swing / angle * (1 - np.cos(angle * clock))
    return np.interp(operational, passed, clock)


def _users(rng: np.random.Generator, count: int, habits: Habits) -> Codes:
    """Return the user of each session: few users have many."""
    users = max(1, round(count / habits.sessions_per_user))
    much = np.exp(habits.user_spread * rng.standard_normal(users))
    chosen: NDArray[np.int64] = rng.choice(users, count, p=much / much.sum())
    return chosen


def _after_outages(rng: np.random.Generator, times: Floats, habits: Habits) -> Floats:
    """Return the times with those within an outage moved to soon after its end, in the same order."""
    if habits.outage_every_s is None:
        return times
    at = 0.0
    last = float(times.max())
    while (at := at + float(rng.exponential(habits.outage_every_s))) < last:
        length = min(habits.outage_s * float(np.exp(habits.outage_spread * rng.standard_normal())), 24 * _HOUR_S)
        within = (times >= at) & (times < at + length)
        times = np.where(within, at + length + habits.retry_s * (times - at) / length, times)
        at += length
    return times
