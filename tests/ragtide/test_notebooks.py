"""`load`, `score`, `estimates` and `gate` for notebooks: frames, HTML, short texts, also while an event loop runs."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.ragtide.test_labelings import labeled, scored
from tests.support.cases import for_each

import ragtide
from ragtide import ConfigurationError, Estimate, RagInteraction, RagtideError, Summary, estimates, gate, load, score
from ragtide.testing import FakeLabeler
from ragtide_offline.experiments.board import Board, BoardRow
from ragtide_offline.experiments.projections import Projection
from ragtide_producers import UnreadableFileError
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Kind

ROWS = Path(__file__).parents[1] / "data" / "ragbench" / "ragbench_sample.jsonl"
METRIC = "trace.adherence"
HOSTILE = "<script>alert(1)</script>"


def rows(count: int = 5, pipeline: str = "shop") -> list[dict[str, Any]]:
    return [
        {
            "interaction_id": f"i-{number}",
            "pipeline": pipeline,
            "question": "When was the tower built?",
            "documents": ["The tower was built in 1889 in Paris."],
            "response": "The tower was built in 1889.",
        }
        for number in range(count)
    ]


def test_a_file_objects_and_interactions_give_the_same_scores(tmp_path: Path) -> None:
    of_file, of_loaded = score(ROWS, labeler="local"), score(load(ROWS), labeler="local")
    first, second = ([(e.metric, e.estimate, e.lower, e.n) for e in of.estimates] for of in (of_file, of_loaded))
    assert first == second
    assert len(of_file.events) == 80
    found = score(rows(), labeler="local")
    assert [event.interaction_id for event in found.events] == [f"i-{number}" for number in range(5)]
    (mean,) = [estimate for estimate in found.estimates if estimate.metric == METRIC]
    values = [event.scores[METRIC] for event in found.events]
    assert mean.n == 5
    assert mean.estimate == pytest.approx(sum(values) / 5)


def test_rows_that_are_no_interactions_are_named() -> None:
    for bad, words in (
        ([*rows(1), {"question": "q"}], "row 2: documents is missing"),
        (["only a question"], "row 1: it is of type str"),
    ):
        with pytest.raises(UnreadableFileError, match=words):
            load(bad)  # type: ignore[arg-type]
    assert load([{name: value for name, value in rows(1)[0].items() if name != "pipeline"}], pipeline="p")
    with pytest.raises(ConfigurationError, match="did you mean 'normal'"):
        score(rows(), strategy="norml")


async def test_scoring_works_while_an_event_loop_runs() -> None:
    assert score(rows(), labeler="local").estimates


def test_a_summary_is_a_frame_a_table_and_a_short_text() -> None:
    found = score(rows(3, HOSTILE), labeler="local")
    frame = found.to_frame()
    row = frame[frame["metric"] == METRIC].iloc[0]
    assert (row["pipeline"], row["n"]) == (HOSTILE, 3)
    assert list(Summary((), ()).to_frame().columns) == list(frame.columns)
    page = found._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert METRIC in page
    text = repr(Summary(list(found.estimates) * 100, (), ["row 1: bad"]))
    assert len(text) < 1_500
    assert "1 problems" in text


@for_each("library", ["pandas", "polars", None])
def test_without_a_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigurationError, match="pip install p"):
        Summary((), ()).to_frame(library)


def test_polars_is_used_where_pandas_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Polars:
        DataFrame = dict

    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", Polars)
    assert Summary((), ()).to_frame()["metric"] == []


def board(count: int) -> Board:
    names = [f"{HOSTILE} {number}" for number in range(count)]
    made = [
        BoardRow(
            name, number, {"k": "v" * 5_000}, None, "running", 10, 0, 0, 10,
            {METRIC: Projection(0.5, 0.4, 0.6, 10, Kind.ALGEBRAIC)}, 0.1, 5, None, {},
        )
        for number, name in enumerate(names)
    ]  # fmt: skip
    return Board("try", METRIC, True, 10, 100, 1, 8, None, False, made)


def test_texts_are_short_however_long_the_object_is() -> None:
    long = RagInteraction(
        pipeline="p" * 200, question="q" * 9_000, documents=["d" * 90_000] * 50, response="r" * 50_000,
        metadata={str(number): "m" for number in range(1000)},
    )  # fmt: skip
    (estimate, *_) = score(rows(1), labeler="local").estimates
    many = board(300)
    for one in (long, long.documents[0], estimate, many, many.rows[0]):
        assert len(repr(one)) <= 300, repr(one)
        assert "\n" not in repr(one)
        assert len(str(one)) <= 300
    assert METRIC in repr(many)
    assert "estimate=" in repr(estimate)


def test_a_board_is_a_frame_and_a_bounded_table() -> None:
    found = board(300)
    page = found._repr_html_()
    assert "<script" not in page
    assert "100 more rows" in page
    assert len(page) < 100_000
    frame = found.to_frame()
    assert (len(frame), frame["parameter.k"].iloc[0], frame[f"{METRIC}.lower"].iloc[0]) == (300, "v" * 5_000, 0.4)


def test_an_experiment_has_a_short_text() -> None:
    made = ragtide.Experiment("try", "m:f", data=["q"] * 1, metric=METRIC, configs={"a": {"k": "x" * 9_000}, "b": {}})
    assert repr(made) == "Experiment('try', 2 configs x 1 items, trace.adherence)"


def test_a_gate_on_a_summary_with_a_baseline() -> None:
    found = score(rows(40), labeler="local")
    assert gate(found, f"{METRIC}.n < 41").outcome == "fail"
    assert gate(found, f"{METRIC}.mean < 0").outcome == "pass"
    assert gate(found, f"{METRIC}.difference < 0").outcome == "undecided"
    assert gate(found, f"{METRIC}.difference.mean < 0", baseline=found).outcome == "pass"
    with pytest.raises(ValueError, match="did you mean"):
        gate(found, "trace.adherance < 1")


def test_estimates_reads_live_traffic(redis_url: str, redis: Any) -> None:
    async def stored() -> None:
        async with connect_async(redis_url) as client:
            # The estimates of a workspace are read as those of a deployment with its prefix.
            await labeled(client, "one", scored([0.9] * 50))

    asyncio.run(stored())
    settings = Settings(prefix=Streams("ragtide.run.one", 0).prefix, redis_url=redis_url)
    found = estimates("shop", settings=settings)
    assert [estimate.n for estimate in found.estimates if estimate.metric == METRIC and estimate.segment is None] == [
        50
    ]
    assert isinstance(found.estimates[0], Estimate)
    with pytest.raises(ConfigurationError, match="did you mean 'shop'"):
        estimates("shpo", settings=settings)


def test_estimates_of_several_runs_and_labelers_are_told_apart() -> None:
    (one,) = [found for found in score(rows(1), labeler="local").estimates if found.metric == METRIC]
    long = "s" * 200
    several = [one, one.model_copy(update={"run": "b", "estimator": "weighted", "segment": long})]
    lines = repr(Summary(several, ())).splitlines()
    assert lines[1].startswith(f"  mean · {METRIC}: ")
    assert lines[2].startswith(f"  b · {'s' * 40}… · weighted · {METRIC}: ")
    assert f"  {METRIC}: " in repr(Summary([one], ()))
    page = Summary(several, ())._repr_html_()
    assert "<th>pipeline</th><th>run</th><th>segment</th><th>labeler</th><th>estimator</th><th>metric</th>" in page
    assert "<td>b</td>" in page
    alone = Summary([one], ())._repr_html_()
    assert "<th>pipeline</th><th>segment</th><th>labeler</th><th>metric</th>" in alone


@for_each(
    "wrong, words",
    [
        ({"confidence": 2}, "the confidence is 2: give a number between 0 and 1"),
        ({"confidence": float("nan")}, "the confidence is nan"),
        ({"confidence": "0.9"}, "the confidence is '0.9'"),
        ({"labeler": 5}, "the given labeler has no name, version, profile, label"),
        ({"labeler": FakeLabeler}, "the given labeler has no name"),
        ({"data": None}, "the data are of type NoneType: give a path, or a list"),
        ({"data": RagInteraction(**rows(1)[0])}, "the data are of type RagInteraction"),
        ({"data": rows(1)[0]}, "the data are of type dict"),
    ],
)
def test_a_wrong_argument_is_one_sentence(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(RagtideError, match=re.escape(words)):
        score(**{"data": rows(1), "labeler": "local", **wrong})


def test_an_object_that_is_no_summary_has_no_gate() -> None:
    known = score(rows(1), labeler="local")
    wrong: Any = "scores.jsonl"
    with pytest.raises(TypeError, match="summary is of type str: give a summary"):
        gate(wrong, f"{METRIC} < 1")
    with pytest.raises(TypeError, match="baseline is of type str"):
        gate(known, f"{METRIC}.difference < 0", baseline=wrong)
    with pytest.raises(ValueError, match=r"undecided: there is no choice 'skip'\. There are: undecided, pass, fail"):
        gate(known, f"{METRIC} < 1", undecided="skip")
    with pytest.raises(ConfigurationError, match="no library 'spark': give pandas or polars"):
        known.to_frame("spark")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the confidence is 7"):
        estimates(confidence=7)
