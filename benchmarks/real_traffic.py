"""False alarms and delays on traffic as it is: ragtide's rules beside those of others.

    python benchmarks/real_traffic.py [--runs 100] [--quick] [--only PART] [--folder FOLDER]

Seeded. Each kind of traffic is one of `traffic/scenarios.py`; `--only` takes those whose name contains a text. Printed
as Markdown: the run length of rules without a change and how often the running interval ever misses; run lengths of
peers with their usual thresholds and with those tuned on independent traffic; what the split of a change says of its
cause; delays, with peers tuned on the same traffic to the run length asked of the rules. `--quick` simulates a tenth of
it on three kinds of traffic.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path

from traffic.kinds import KINDS_QUICK, KindSizes, kinds_of_rules
from traffic.measures import QUICK, Sizes, Steady, delays, steady, thresholds
from traffic.messages import CAUSES, messages
from traffic.peers import peers
from traffic.report import DELAYS, HEADER, delay_table, kind_table, message_table, peer_table, rule_table
from traffic.scenarios import INDEPENDENT, SCENARIOS, Scenario

OF_KINDS = ("independent", "sessions of 5, icc 0.2, 20 at once", "day and night, 0.85 +- 0.05", "chat")
QUICKLY = ("independent", "sessions of 5, icc 0.2, 20 at once", "chat")


def chosen_scenarios(arguments: argparse.Namespace) -> tuple[Scenario, ...]:
    """Return the kinds of traffic to simulate."""
    if arguments.quick:
        return tuple(scenario for scenario in SCENARIOS if scenario.name in QUICKLY)
    return tuple(scenario for scenario in SCENARIOS if arguments.only in scenario.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="PART")
    parser.add_argument("--folder", type=Path, help="write two pages there, instead of printing them")
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else Sizes()
    if arguments.runs is not None:
        sizes = replace(sizes, runs=arguments.runs)
    scenarios = chosen_scenarios(arguments)
    found: dict[str, Steady] = {scenario.name: steady(scenario, sizes) for scenario in scenarios}
    independent = found.get(INDEPENDENT.name) or steady(INDEPENDENT, sizes)
    usual = {peer.name: peer.usual for peer in peers(sizes.reference)}
    alike = thresholds(independent, sizes.run_length)
    kind_sizes = KINDS_QUICK if arguments.quick else KindSizes()
    kinds = {scenario.name: kinds_of_rules(scenario, kind_sizes) for scenario in scenarios if scenario.name in OF_KINDS}
    findings = [
        HEADER.format(**asdict(sizes)),
        rule_table(scenarios, found),
        peer_table("Peers with their usual thresholds", scenarios, found, usual, sizes),
        peer_table("Peers tuned on independent traffic", scenarios, found, alike, sizes),
        kind_table(kinds, kind_sizes),
        message_table([messages(cause, sizes, 20 + number) for number, cause in enumerate(CAUSES)]),
    ]
    late = [DELAYS]
    for scenario in scenarios:
        tuned = thresholds(found[scenario.name], sizes.run_length)
        late.append(delay_table(scenario, found[scenario.name], delays(scenario, sizes, tuned), tuned, sizes))
    for name, parts in (("real_traffic.md", findings), ("real_traffic_delays.md", late)):
        text = "\n".join(parts)
        if arguments.folder is None:
            print(text)
        else:
            (arguments.folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
