"""The pictures of the docs are those that their command draws, and clusters.md quotes the measured pages."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import numpy as np
import pytest
from tests.support.doc_pages import page_text
from traffic.advised import SEASONAL, Pair, delays, number, peer_names, run_lengths, seasonal_delay, tables
from traffic.scenarios import named
from traffic.stream import Traffic

pytestmark = pytest.mark.simulation

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "benchmarks" / "measured"
PICTURES = ROOT / "docs" / "assets"
CLUSTERS = page_text("clusters")


def program(name: str) -> ModuleType:
    """Return a program of benchmarks/."""
    spec = importlib.util.spec_from_file_location(f"program_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def texts(svg: str) -> list[str]:
    """Return the texts of a picture: matplotlib writes each as a comment before its outline."""
    return re.findall(r"<!-- (.*?) -->", svg)


def drawing(svg: str) -> tuple[str, list[float]]:
    """Return a picture without its numbers, and these; names of parts depend on the last digits of numbers."""
    nameless = re.sub(r'(id="|href="#|url\(#)[^")]*', r"\1", svg)
    found = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
    return re.sub(found, "0", nameless), [float(one) for one in re.findall(found, nameless)]


def test_the_command_draws_the_pictures_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["figures.py", str(tmp_path)])
    with mpl.rc_context():
        program("figures").main()
    names = {path.name for path in PICTURES.glob("*.svg")} - {"logo.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names
    for name in names:
        drawn, committed = ((folder / name).read_text(encoding="utf-8") for folder in (tmp_path, PICTURES))
        assert texts(drawn) == texts(committed)
        # Another version of matplotlib outlines letters in another way.
        if f"Matplotlib v{mpl.__version__}," in committed:
            (shape, points), (expected_shape, expected_points) = drawing(drawn), drawing(committed)
            assert shape == expected_shape
            assert points == pytest.approx(expected_points, abs=0.01)


@pytest.mark.parametrize("name", ["traffic_run_lengths.svg", "traffic_delays.svg"])
def test_a_picture_shows_the_measured_figures_and_docs_describe_it(name: str) -> None:
    shown = texts((PICTURES / name).read_text(encoding="utf-8"))
    pairs = run_lengths(MEASURED)
    if name == "traffic_delays.svg":
        pairs = [*delays(MEASURED, "0.75"), *delays(MEASURED, "0.65")]
    for pair in pairs:
        assert {f"{pair.other:,.0f}", f"{pair.setting:,.0f}"} <= set(shown)
        assert pair.name.replace('"', "&quot;") in shown or pair.name in shown
    assert re.search(rf"!\[[^\]]{{40,}}\]\(../assets/{name}\)", CLUSTERS)


def test_the_picture_of_closings_says_when_each_cluster_closes() -> None:
    figures = program("figures")
    found = [figures.closed_at(*settings) for _, *settings in figures.CLOSED_BY]
    assert found == [([5], [11.0]), ([3], [18.0]), ([2, 1], [3.5, 10.0])]
    assert re.search(r"!\[[^\]]{40,}\]\(../assets/closing.svg\)", CLUSTERS)


def test_docs_quote_the_measured_figures_of_each_setting() -> None:
    rows = tables(CLUSTERS)["Which setting for which traffic"]
    lengths = run_lengths(MEASURED)
    assert [number(row["run length: each by itself"]) for row in rows] == [one.other for one in lengths]
    # Two columns have the same head.
    lines = [line[1:-1].split("|") for line in CLUSTERS.splitlines() if line.startswith("|")]
    body = [[cell.strip() for cell in line] for line in lines if line[0].strip() in {row["traffic"] for row in rows}]
    late = delays(MEASURED, "0.65")
    seasonal = [seasonal_delay(MEASURED, one, "0.2") for one in SEASONAL]
    expected = [*late[:-1], *seasonal, late[-1]]
    for cells, length, delay in zip(body, lengths, expected, strict=True):
        assert number(cells[3]) == length.setting
        assert cells[4] == ("" if delay in seasonal else f"{delay.other:,.0f}")
        assert number(cells[5]) == delay.setting


def test_a_table_is_read_with_its_empty_first_cells() -> None:
    page = "# A page\n\nWords.\n\n## Part\n\n|traffic|rule|run length|\n|---|---|---|\n|a|x|1,234±5|\n||y|20,000±0|\n"
    assert tables(page) == {
        "Part": [
            {"traffic": "a", "rule": "x", "run length": "1,234±5"},
            {"traffic": "a", "rule": "y", "run length": "20,000±0"},
        ]
    }
    assert number("1,234±5") == 1_234
    with pytest.raises(ValueError, match="no figure"):
        number("none")


def test_the_best_peer_is_none_of_ragtides_rules() -> None:
    rows = tables((MEASURED / "real_traffic_delays.md").read_text(encoding="utf-8"))["Chat"]
    names = peer_names(rows)
    assert len(names) == 10
    assert {"ADWIN", "mean of the last 100"} < set(names)
    best = min(number(row["to 0.65"]) for row in rows if row["detector"] in names)
    assert delays(MEASURED, "0.65")[2] == Pair("chats: quiet_s = 600", best, 84)


def continued_by_hand(traffic: Traffic, size: int, quiet_s: int) -> float:
    """Return the share of clusters that are not the first of their session."""
    parts = sessions = 0
    for run in range(traffic.runs):
        for code in np.unique(traffic.session[run]):
            times = (traffic.time_s[run][traffic.session[run] == code] * 1_000).astype(np.int64)
            length, sessions = 0, sessions + 1
            for gap in np.diff(times, prepend=times[0] - 1_000 * quiet_s):
                length = 1 if gap >= 1_000 * quiet_s or length == size else length + 1
                parts += length == 1
    return 1 - sessions / parts


@pytest.mark.parametrize("quiet_s", [120, 600])
def test_continued_clusters_are_those_after_the_first_of_a_session(quiet_s: int) -> None:
    command = program("continued_clusters")
    traffic = named("chat").draw(np.random.default_rng(11), 3, 800)
    expected = continued_by_hand(traffic, command.SIZE, quiet_s)
    assert command.continued_share(traffic, quiet_s) == pytest.approx(expected)
    assert 0 < expected < 0.4


def test_docs_quote_the_measured_share_of_continued_clusters() -> None:
    (rows,) = tables((MEASURED / "continued_clusters.md").read_text(encoding="utf-8")).values()
    found = {row["quiet_s"]: float(row["clusters that go on"].removesuffix("%")) for row in rows}
    said = " ".join(CLUSTERS.split())
    assert f"{found['120']:.0f}% of their clusters continued a closed cluster" in said
    assert f"This share is {found['600']:.0f}% with 600 seconds, and {found['1800']:.1f}% with 1800" in said
    for row in rows:
        assert row["run length"].partition("±")[0] in said
