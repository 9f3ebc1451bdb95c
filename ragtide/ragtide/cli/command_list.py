"""The commands of `ragtide` in groups, each with its place and one line of help. The list imports no command."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in the list of `ragtide --help`."""

    target: str
    """Module and function, or group of commands, as `module:name`."""
    help: str
    """One sentence; the help of the command begins with it."""


GROUPS: Final = {
    "Start": {
        "demo": Listed("demo:demo", "Run all roles over example data until an alert fires."),
        "up": Listed("serving:up", "Run all roles in one process, until Ctrl-C."),
        "doctor": Listed("doctor:doctor", "Check the deployment, and say how to repair each problem."),
        "docs": Listed("docs:docs", "Read the documentation of this version."),
    },
    "Publish": {
        "publish": Listed("publish:publish", "Publish a file of interactions, to be scored live."),
        "feedback": Listed("feedback:feedback", "Publish gold scores of interactions."),
        "annotate": Listed("annotate:annotate", "Annotate kept items: sentence by sentence, blind to the scores."),
        "ingest": Listed("ingest:ingest", "Read interactions from captured traces of OpenTelemetry."),
    },
    "Look (live)": {
        "watch": Listed("watch:watch", "Show estimates, trends and alerts live, until Ctrl-C."),
        "estimates": Listed("estimates:estimates", "Show the running estimates with their intervals, once."),
        "compare": Listed("compare:compare", "Compare two pipelines, two workspaces or two labelers."),
        "explain": Listed("explain:explain", "Explain a metric: formula, direction, limits and labelers."),
        "explain-drift": Listed("explain_drift:explain", "Split a change into changed traffic and changed quality."),
        "alerts": Listed("alerts:alerts", "Show the alerts, or wait for new ones."),
        "items": Listed("items:items", "List kept items: the worst, a sample, or those of an alert."),
        "item": Listed("item:item", "Show one kept item: marked sentences and scores."),
        "trace": Listed("trace:trace", "Follow one interaction: published, taken, labeled, aggregated."),
        "dead-letters": Listed(
            "dead_letters:dead_letters", "Show entries that could not be used, or publish them again."
        ),
    },
    "Offline (files, without Redis)": {
        "score": Listed("score:score", "Score a file of interactions."),
        "fit": Listed("fit:fit", "Fit the local labeler to a judge, people or known failures."),
        "batch": Listed("batch:batch", "Ask the judge in batches, at half the price."),
        "benchmark": Listed("benchmark:benchmark", "Measure a labeler on labeled data."),
        "judge": Listed("judge:judge", "Show what your judge sees, for a stated cost."),
        "agreement": Listed("agreement:agreement", "Measure how well scores agree with gold or other scores."),
    },
    "Record and replay": {
        "recorder": Listed("serving:recorder", "Run a recorder: it writes the live streams to files."),
        "inspect": Listed("inspecting:inspect", "Show the contents of a recording, or verify its files."),
        "replay": Listed("replay:replay", "Replay a recording with other rules or another labeler."),
        "workspaces": Listed("workspaces:workspaces", "List or remove the workspaces of replays and experiments."),
    },
    "Experiments": {
        "dataset": Listed("dataset:dataset", "Write kept items as a data set, for experiments and tests."),
        "experiment": Listed("experiment:experiment", "Run configs over a data set, and stop those that surely lose."),
        "report": Listed("report:report", "Write the report of an experiment or a replay as a page."),
    },
    "Notify": {
        "notify": Listed("notify:notify", "Run a notifier: it tells people and machines of alerts."),
        "ack": Listed("ack:ack", "Acknowledge alerts: they are not told again while they fire."),
        "silence": Listed("silence:silence", "Silence alerts for a while, or list the silences."),
    },
    "Operate": {
        "worker": Listed("serving:worker", "Run a worker: it labels interactions."),
        "aggregator": Listed("serving:aggregator", "Run an aggregator: it computes estimates and raises alerts."),
        "serve": Listed("serving:serve", "Run the HTTP service, for interactions and traces."),
        "rules": Listed("rules:rules", "Check alert rules, test them, or begin with a template."),
        "repartition": Listed("repartition:repartition", "Change the number of partitions while no role runs."),
    },
}
"""The commands of each group, in the order of the help."""

COMMANDS: Final = {name: listed for group in GROUPS.values() for name, listed in group.items()}
"""Every command by its name."""
