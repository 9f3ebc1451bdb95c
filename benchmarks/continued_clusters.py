"""How many clusters of chats go on after they were closed, by quiet time.

    python benchmarks/continued_clusters.py [--runs 100] [--n 2000]

Seeded, on the traffic "chat" of `traffic/scenarios.py`. The share of continued clusters is the one that
`ragtide doctor` shows: counted by the aggregator's state, over its closed and open clusters. Run lengths are those of
`real_traffic.py`, on the same draws. Printed as Markdown.
"""

import argparse
from dataclasses import replace

import numpy as np
from traffic.measures import Mean, Sizes, groups
from traffic.records import run_lengths
from traffic.report import table
from traffic.rules import alarms_by_session, recorded
from traffic.scenarios import named
from traffic.stream import Traffic

from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_offline.replay.tables import columns_of
from ragtide_runtime.settings.alerting import ClusterSettings

CHAT = named("chat")
SIZE = 10
QUIET_S = (120, 600, 1_800)
_STEP = 500

HEADER = """# Clusters that go on after they were closed

Written by `make realtraffic` (`benchmarks/continued_clusters.py`), on the traffic "chat" of
[Real traffic](real_traffic.md), with `size = {size}`.

A cluster is continued if its session had a closed cluster before. The share is that of {runs:,} pipelines with {n:,}
answers each. The run length is the mean number of answers until the first false alarm of a rule that states
{run_length:,.0f}, in {runs:,} runs cut at {cut:,}; after ± stands the simulation error.
"""


def continued_share(traffic: Traffic, quiet_s: int) -> float:
    """Return the share of clusters that go on with a closed cluster; every run is a pipeline."""
    options = StateOptions(segments=False, quantiles=False, clusters=ClusterSettings(size=SIZE, quiet_s=quiet_s))
    state = AggregatorState(options)
    for start in range(0, traffic.n, _STEP):
        part = np.arange(start, min(start + _STEP, traffic.n))
        names = {"session_id": CHAT.cluster}
        state.apply_columns(columns_of(recorded(traffic, np.arange(traffic.runs), part, names)))
    sums = state.cluster_sums(np.arange(len(state.keys), dtype=np.intp))
    if sums is None:
        raise RuntimeError("the state has no clusters")
    counts = np.array(list(state.continued.values()))
    continued, still_open = counts.sum(axis=0)
    return float(continued / (sums.count.sum() + still_open))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--n", type=int, default=2_000, help="answers of each pipeline whose clusters are counted")
    arguments = parser.parse_args()
    sizes = replace(Sizes(), runs=arguments.runs)
    shares: dict[int, list[float]] = {quiet_s: [] for quiet_s in QUIET_S}
    lengths: dict[int, list[int]] = {quiet_s: [] for quiet_s in QUIET_S}
    weights, limit = [], CHAT.quality.baseline - CHAT.min_effect
    for traffic in groups(CHAT, sizes, sizes.cut, None, 1):
        weights.append(traffic.runs)
        later = traffic.columns(slice(sizes.reference, None))
        for quiet_s in QUIET_S:
            shares[quiet_s].append(continued_share(later.columns(slice(0, arguments.n)), quiet_s))
            alarms = alarms_by_session(
                later, CHAT.cluster, size=SIZE, quiet_s=quiet_s, limit=limit, run_length=sizes.run_length
            )
            lengths[quiet_s] += run_lengths(alarms, sizes.cut).tolist()
    rows = [
        (f"{quiet_s}", f"{np.average(shares[quiet_s], weights=weights):.1%}", str(Mean.of(lengths[quiet_s])))
        for quiet_s in QUIET_S
    ]
    print(HEADER.format(size=SIZE, runs=sizes.runs, n=arguments.n, run_length=sizes.run_length, cut=sizes.cut))
    print(table(("quiet_s", "clusters that go on", "run length"), rows), end="")


if __name__ == "__main__":
    main()
