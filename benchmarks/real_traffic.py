"""False alarms and delays on traffic as it is: ragtide's rules beside those of others.

    python benchmarks/real_traffic.py [--runs 100] [--quick] [--only PART]

Seeded. Each kind of traffic is one of `traffic/scenarios.py`; `--only` takes those whose name contains a text. Printed
as Markdown: the run length of rules without a change and how often the running interval ever misses; run lengths of
peers with their usual thresholds and with those tuned on independent traffic; what the split of a change says of its
cause; delays, with peers tuned on the same traffic to the run length asked of the rules. `--quick` simulates a tenth of
it on three kinds of traffic.
"""

import argparse
from dataclasses import asdict, replace

from traffic.kinds import KINDS_QUICK, KindSizes, kinds_of_rules
from traffic.measures import QUICK, Sizes, Steady, delays, steady, thresholds
from traffic.messages import CAUSES, messages
from traffic.peers import peers
from traffic.report import HEADER, delay_table, kind_table, message_table, peer_table, rule_table
from traffic.scenarios import INDEPENDENT, SCENARIOS, Scenario

OF_KINDS = ("independent", "sessions of 5, icc 0.2, 20 at once", "day and night, 0.85 +- 0.05", "chat")
QUICKLY = ("independent", "sessions of 5, icc 0.2, 20 at once", "chat")


def chosen(arguments: argparse.Namespace) -> tuple[Scenario, ...]:
    """Return the kinds of traffic to simulate."""
    if arguments.quick:
        return tuple(one for one in SCENARIOS if one.name in QUICKLY)
    return tuple(one for one in SCENARIOS if arguments.only in one.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="PART")
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else Sizes()
    if arguments.runs is not None:
        sizes = replace(sizes, runs=arguments.runs)
    scenarios = chosen(arguments)
    found: dict[str, Steady] = {one.name: steady(one, sizes) for one in scenarios}
    independent = found.get(INDEPENDENT.name) or steady(INDEPENDENT, sizes)
    print(HEADER.format(**asdict(sizes)))
    print(rule_table(scenarios, found))
    usual = {peer.name: peer.usual for peer in peers(sizes.reference)}
    print(peer_table("Peers with their usual thresholds", scenarios, found, usual, sizes))
    alike = thresholds(independent, sizes.run_length)
    print(peer_table("Peers tuned on independent traffic", scenarios, found, alike, sizes), flush=True)
    kind_sizes = KINDS_QUICK if arguments.quick else KindSizes()
    kinds = {one.name: kinds_of_rules(one, kind_sizes) for one in scenarios if one.name in OF_KINDS}
    print(kind_table(kinds, kind_sizes), flush=True)
    print(message_table([messages(cause, sizes, 20 + number) for number, cause in enumerate(CAUSES)]))
    print("## Delays, peers tuned on the same traffic\n")
    print("Mean number of answers from the fall to the alarm, of runs without an alarm before.\n", flush=True)
    for scenario in scenarios:
        tuned = thresholds(found[scenario.name], sizes.run_length)
        print(delay_table(scenario, found[scenario.name], delays(scenario, sizes, tuned), tuned, sizes), flush=True)


if __name__ == "__main__":
    main()
