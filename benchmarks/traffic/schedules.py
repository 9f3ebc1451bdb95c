"""Schedules of a fixed plan: interactions at equal distances, in clusters of equal size, so many clusters at once."""

import numpy as np

from .stream import Codes, Floats, Schedule

PER_DAY = 2_000
"""Interactions a day. Assumed: a small product; the issue's day and night has the same period."""
DAY_S = 86_400.0
SPACING_S = DAY_S / PER_DAY
BUSY_SPACING_S = 1.0
"""Time from an interaction to the next where sessions and batches are planned. Assumed: with 20 sessions at once the
turns of a session are 20 seconds apart."""


def evenly(runs: int, n: int, spacing_s: float) -> Floats:
    """Return times at equal distances, the same in each run."""
    return np.broadcast_to(np.arange(n) * spacing_s, (runs, n))


def alone(rng: np.random.Generator, runs: int, n: int) -> Schedule:
    """Return interactions each of which is a session, a user and a batch of its own."""
    del rng
    own = np.broadcast_to(np.arange(n, dtype=np.int64), (runs, n))
    return Schedule(evenly(runs, n, SPACING_S), own, np.zeros_like(own), own, own)


def sessions(rng: np.random.Generator, runs: int, n: int, *, size: int, at_once: int = 1) -> Schedule:
    """Return sessions of one size, each of a user of its own; each interaction belongs to one of those open at random.

    Args:
        rng: source of randomness.
        runs: number of runs.
        n: interactions of a run.
        size: interactions of a session.
        at_once: number of open sessions; a session that ends is replaced at once. Each of the first ones is somewhere
            in its middle, so that they do not all end together.
    """
    session, turn = _interleaved(rng, runs, n, size, at_once)
    return Schedule(evenly(runs, n, BUSY_SPACING_S), session, turn, session, np.broadcast_to(np.arange(n), (runs, n)))


def batches(rng: np.random.Generator, runs: int, n: int, *, size: int) -> Schedule:
    """Return batches of one size, one after the other, each of one customer; every interaction is a session."""
    batch, _ = _interleaved(rng, runs, n, size, 1)
    own = np.broadcast_to(np.arange(n, dtype=np.int64), (runs, n))
    return Schedule(evenly(runs, n, BUSY_SPACING_S), own, np.zeros_like(own), batch, batch)


def _interleaved(rng: np.random.Generator, runs: int, n: int, size: int, at_once: int) -> tuple[Codes, Codes]:
    """Return session and turn of each interaction."""
    every = np.arange(runs)
    open_code = np.broadcast_to(np.arange(at_once), (runs, at_once)).copy()
    open_turn = rng.integers(0, size, (runs, at_once)) if at_once > 1 else np.zeros((runs, 1), dtype=np.int64)
    following = np.full(runs, at_once)
    session, turn = np.empty((runs, n), dtype=np.int64), np.empty((runs, n), dtype=np.int64)
    chosen = rng.integers(0, at_once, (n, runs))
    for column in range(n):
        place = chosen[column]
        session[:, column] = open_code[every, place]
        turn[:, column] = open_turn[every, place]
        open_turn[every, place] += 1
        ended = open_turn[every, place] >= size
        rows, places = every[ended], place[ended]
        open_code[rows, places] = following[rows]
        open_turn[rows, places] = 0
        following[rows] += 1
    return session, turn
