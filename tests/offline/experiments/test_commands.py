"""Commands to experiments: when they take effect, and which are refused."""

from tests.offline.experiments.scores import filled, raced
from tests.support.experiment_plans import EVIDENCE, plan

from ragtide_offline.experiments.decisions import race_decision
from ragtide_offline.experiments.state import REFUSED_MAX, ExperimentState
from ragtide_schemas.experiments import (
    Begun,
    Command,
    Completed,
    Limits,
    Look,
    Paused,
)


def test_commands_take_effect_from_the_most_recent_comparison_point() -> None:
    state = ExperimentState(plan())
    for entry in (
        Look(item=5),
        Command(op="stop", config="c1", by="ann"),
        Look(item=10),
        Command(op="clone", config="c0", clone="c0b", parameters={"k": 9, "more": True}),
        Command(op="resume", config="c1"),
        Look(item=15),
        Command(op="delete", config="c2"),
    ):
        assert state.apply(entry) is None
    assert state.compared == 15
    assert state.configs["c1"].spans == [[0, 5], [10, None]]
    assert [item for item in range(20) if state.configs["c1"].covers(item)] == [*range(5), *range(10, 20)]
    clone = state.configs["c0b"]
    assert (clone.config.parameters, clone.config.parent, clone.spans, clone.index) == (
        {"k": 9, "more": True}, "c0", [[10, None]], 3,
    )  # fmt: skip
    assert state.configs["c2"].status == "deleted"
    assert [one.config.name for one in state.running] == ["c0", "c1", "c0b"]


def test_commands_without_effect_are_refused_with_the_reason() -> None:
    state = ExperimentState(plan())
    state.apply(Command(op="stop", config="c1"))
    state.apply(Command(op="delete", config="c2"))
    state.apply(Command(op="resume", config="c0", keep=True))
    before = repr(state.configs)
    for order, words in (
        (Command(op="stop", config="other"), "there is no config 'other'. There are: c0, c1"),
        (Command(op="stop", config="c1"), "stopped already"),
        (Command(op="resume", config="c2"), "was deleted"),
        (Command(op="resume", config="c0", keep=True), "is running"),
        (Command(op="clone", config="c0", clone="c1"), "give the clone another name"),
        (Command(op="stop", config="c0", by="race", evidence=EVIDENCE), "a user has vetoed it"),
    ):
        assert words in (state.apply(order) or "")
    assert repr(state.configs) == before
    # The race may not stop it, a user may.
    assert state.apply(Command(op="stop", config="c0", by="ann")) is None


def test_comparison_points_only_go_on() -> None:
    state = ExperimentState(plan())
    assert state.apply(Look(item=5)) is None
    for item in (5, 4, 21):
        assert state.apply(Look(item=item)) is not None
    assert state.compared == 5
    assert state.apply(Begun(plan=plan())) is not None


def test_a_paused_or_complete_experiment_goes_on_with_a_command() -> None:
    state = ExperimentState(plan())
    state.apply(Paused(reason="too dear"))
    assert state.paused == "too dear"
    state.apply(Command(op="limits", limits=Limits(max_cost_usd=2)))
    assert state.paused is None
    assert state.limits.max_cost_usd == 2
    state.apply(Command(op="stop", config="c1"))
    state.apply(Completed())
    assert state.completed
    state.apply(Command(op="resume", config="c1"))
    assert not state.completed


def test_commands_without_effect_are_kept_up_to_a_bound() -> None:
    state = ExperimentState(plan())
    for number in range(REFUSED_MAX + 5):
        assert state.apply(Command(op="stop", config=f"x{number}")) is not None
    assert len(state.refused) == REFUSED_MAX
    assert state.refused[-1].command.config == f"x{REFUSED_MAX + 4}"


def test_a_command_in_between_makes_the_race_decide_anew() -> None:
    scores = {"c0": [0.2] * 100, "c1": [0.8] * 100, "c2": [0.8] * 100}
    state, other = (ExperimentState(plan(3, size=100), filled(scores)) for _ in range(2))
    while not any(isinstance(entry, Command) for entry in race_decision(state)):
        for entry in race_decision(state):
            for one in (state, other):
                assert one.apply(entry) is None
    # The race has tried the next comparison point; before it is written, a user stops the config that is behind.
    by_hand = Command(op="stop", config="c0", by="ann")
    for one in (state, other):
        assert one.apply(by_hand) is None
    decisions = [[entry.model_copy(update={"at": by_hand.at}) for entry in raced(one)] for one in (state, other)]
    assert decisions[0] == decisions[1]
    assert not any(isinstance(entry, Command) and entry.config == "c0" for entry in decisions[0])
