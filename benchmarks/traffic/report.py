"""Tables of the findings on simulated traffic, in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from .kinds import KindSizes
from .measures import Mean, Sizes, Steady
from .messages import Messages
from .peers import peers
from .scenarios import Scenario

HEADER: Final = """# Real traffic

Written by `make realtraffic` (`benchmarks/real_traffic.py`): {runs:,} runs for each figure, seeded.
`benchmarks/traffic/habits.py` names the source of each parameter of the chats, or says that it is assumed.

Scores are yes or no with the mean 0.85, unless the name of the traffic says otherwise. Every rule of ragtide has this
baseline, `min_effect` 0 unless the name says otherwise, and `run_length` {run_length:,.0f}:

- **by answer** takes each answer by itself.
- **clusters** takes sessions, or batches, when they are closed, by their size or by their quiet time, and the first
  answer of each at once. Its baseline is that of first answers, too.
- **blocks** takes neighbours in time as a cluster, whatever their session.

A run length is the mean number of answers until the first false alarm, in runs cut at {cut:,}; after ± stands the
simulation error. "Ever missed" is the share of runs in which the 95% interval of `running` misses the average of the
true means at a look, after every answer from the 30th on, in {covered:,} answers. The design effect is the variance of
sums over clusters, as a multiple of that of independent scores.

Peers have {reference:,} answers without a change as their reference. A fixed limit is the same for every traffic, also
where the mean is another.
"""


DELAYS: Final = """# Delays on real traffic

Written by `make realtraffic` (`benchmarks/real_traffic.py`); [the other findings](real_traffic.md) say how it is
simulated. Mean number of answers from a fall of the mean to the alarm, of runs without an alarm before. Thresholds of
peers are tuned on the same traffic to the run length that is asked of the rules.
"""

MESSAGES: Final = """## Mix or system

Changes of known cause in sessions of 5 (icc 0.2, 20 at once) of three languages with the means 0.89, 0.85 and 0.68. The
rule takes clusters of size 5. The split of the change asks for its cause at the alert, and so many answers later: from
the estimated change point on, beside everything before, with the design effects of the traffic. "Right", "wrong" and
"unresolved" are shares of the alerts. With two causes, naming both or the larger one is right.
"""


def message_table(found: Sequence[Messages]) -> str:
    """Return the messages by cause."""
    rows = []
    for messages in found:
        for place, (later, told) in enumerate(messages.told.items()):
            first = [messages.cause.name, str(messages.delay)] if place == 0 else ["", ""]
            shares = [f"{share:.0%}" for share in (told.right, told.wrong, told.unresolved)]
            rows.append([*first, f"{later:,}" if later else "at the alert", *shares])
    return f"{MESSAGES}\n{table(['cause', 'delay', 'answers later', 'right', 'wrong', 'unresolved'], rows)}"


KINDS: Final = """## Kinds of rules

Through the aggregator's state, as an aggregator with these rules raises its alerts: {runs} runs, cut at {cut:,} answers
after the {learn_n:,} from which rules learn; `min_effect` is the default, 0.02, and clusters are on, with the last
settings of the traffic above; the last rule knows no clusters, and takes blocks of the length that the aggregator
measures. A rule with all earlier values learns nothing at first, and its run length is that from its first answer on.
The delay is that of a fall from 0.85 to {after:g}, {before:,} answers later.
"""


def kind_table(found: Mapping[str, Mapping[str, tuple[Mean, Mean]]], sizes: KindSizes) -> str:
    """Return run lengths and delays of all kinds of rules, by traffic."""
    rows = []
    for traffic, kinds in found.items():
        for place, (name, means) in enumerate(kinds.items()):
            rows.append(["" if place else traffic, name, *map(str, means)])
    return f"{KINDS.format(**asdict(sizes))}\n{table(['traffic', 'rule', 'run length', 'delay'], rows)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines) + "\n"


def rule_table(scenarios: Sequence[Scenario], found: Mapping[str, Steady]) -> str:
    """Return run lengths and misses of ragtide's rules."""
    rows = []
    for scenario in scenarios:
        steady = found[scenario.name]
        for place, (name, (length, missed)) in enumerate(steady.rules.items()):
            first = [scenario.name, f"{steady.design_effect:.1f}"] if place == 0 else ["", ""]
            rows.append([*first, name, str(length), f"{missed:.1%}"])
    head = ["traffic", "design effect", "rule", "run length", "ever missed"]
    return f"## Rules without a change\n\n{table(head, rows)}"


def peer_table(
    title: str,
    scenarios: Sequence[Scenario],
    found: Mapping[str, Steady],
    thresholds: Mapping[str, float | None],
    sizes: Sizes,
) -> str:
    """Return run lengths of the peers at thresholds."""
    names = [peer.name for peer in peers(sizes.reference)]
    usual = {peer.name: peer.usual for peer in peers(sizes.reference)}
    said = {peer.name: peer.usual_name for peer in peers(sizes.reference)}
    rows = []
    for scenario in scenarios:
        lengths = []
        for name in names:
            threshold = thresholds[name]
            length = None if threshold is None else found[scenario.name].records[name].run_length(threshold)
            lengths.append("" if length is None else f"{length:,.0f}")
        rows.append([scenario.name, *lengths])
    head = [f"{name}: {said[name]}" if thresholds[name] == usual[name] else name for name in names]
    return f"## {title}\n\nRun lengths without a change.\n\n{table(['traffic', *head], rows)}"


def delay_table(
    scenario: Scenario,
    steady: Steady,
    delays: Mapping[str, Sequence[Mean]],
    thresholds: Mapping[str, float],
    sizes: Sizes,
) -> str:
    """Return the delays of all detectors on one kind of traffic."""
    rows = []
    for name, means in delays.items():
        if name in steady.rules:
            length = str(steady.rules[name][0])
        else:
            length = f"{steady.records[name].run_length(thresholds[name]):,.0f}"
        rows.append([name, length, *(str(mean) for mean in means)])
    head = ["detector", "run length", *(f"to {after:g}" for after, _ in sizes.falls)]
    return f"## {scenario.name[0].upper()}{scenario.name[1:]}\n\n{table(head, rows)}"
