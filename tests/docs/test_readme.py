"""The README: its figures are the measured ones, its code is the code of the pages, its commands exist."""

import re
from pathlib import Path

import pytest
from tests.support.doc_pages import blocks_of, page_text, tagged_block

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = ROOT / "benchmarks" / "measured"


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table after a heading or a sentence of a measured page, by their first cell."""
    text = (MEASURED / page).read_text(encoding="utf-8")
    table = re.search(r"^\|.*?(?=\n\n|\Z)", text[text.index(heading) :], re.MULTILINE | re.DOTALL)
    assert table is not None
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()]
    return {first: rest for first, *rest in cells}


def promise(words: str) -> str:
    """Return the row of the promises that has these words."""
    (row,) = (line for line in README.splitlines() if line.startswith("|") and words in line)
    return row


def test_the_rate_of_false_alarms_and_the_delay_are_measured() -> None:
    found = rows("drift.md", "Mean delay")["e-detector"]
    (setting, without, *_, delay, _) = found
    assert setting == "A = 10,000"
    row = promise("false alarm")
    assert f"in {without.partition(' ')[0]};" in row
    assert f"after {delay.partition(' ')[0]} answers" in row


def test_the_falls_of_support_that_are_seen_are_measured() -> None:
    found = rows("falls.md", "## Answers that are no longer supported")
    row = promise("no longer supported")
    without, judged = found["local labeler alone"], found["judge of 5%, kappa 0.6, boost 8"]
    (local, large), middle = (cells[2].split(" / ")[1] for cells in (without, judged)), judged[1].split(" / ")[1]
    assert f"from 90% to 50%, {local} are found within 2,000 answers" in row
    assert f"{large} are, and {middle} of falls to 70%, for ${judged[4]} per 10,000 answers" in row
    page = page_text("drift")
    for name in ("local labeler alone", "judge of 5%, kappa 0.6, boost 8", "judge of 10%, kappa 0.6", "thumbs on 3%"):
        assert f"| {name} | {' | '.join(found[name])} |" in page


def test_the_misses_of_intervals_are_measured() -> None:
    table = rows("intervals.md", "Runs in which")
    heads = table.pop("distribution")
    shares = {
        name: [float(row[heads.index(name)].rstrip("%")) for first, row in table.items() if "%" in row[0]]
        for name in ("running", "normal")
    }
    assert f"at most {max(shares['running'])}%" in promise("however often")
    assert f"in {min(shares['normal'])}% or more" in promise("however often")


def test_the_latencies_are_measured() -> None:
    quiet = rows("latency.md", "## Low traffic")["the estimates that include it"]
    busy = rows("latency.md", "## 50% of the capacity")["the webhook has the alert"]
    assert f"{quiet[1]} ms (median)" in promise("live")
    assert f"{int(busy[2]) / 1000:.1f} s at half load (p99)" in promise("live")


def test_the_scores_are_those_of_the_labelers_page() -> None:
    page = (ROOT / "benchmarks" / "measured" / "local_labeler.md").read_text(encoding="utf-8")
    table = README[README.index("| against labels") :].split("\n\n")[0].splitlines()[2:]
    figures = [number for row in table for number in re.findall(r"0\.\d{3}", row)]
    assert len(figures) == 3 * len(table)
    assert [number for number in figures if number not in page] == []


def test_the_two_lines_for_langchain_are_those_of_its_page() -> None:
    lines = [line for line in tagged_block(README, "readme langchain").splitlines() if line]
    of_page = tagged_block(page_text("langchain"), "langchain")
    assert len(lines) == 4
    assert [line for line in lines if line not in of_page] == []
    compile(tagged_block(README, "readme langchain"), "README.md", "exec")


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test"} <= set(re.findall(r"make ([a-z-]+)", README)) <= targets


def test_a_test_reads_every_tag_of_a_block() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [block for page in pages for block in blocks_of(page.read_text(encoding="utf-8"))]
    kinds = {block.tag.split()[0] for block in blocks if block.tag}
    assert {"langchain", "readme", "collector"} <= kinds
    assert [kind for kind in kinds if not re.search(rf'["\': ]{kind}\b', tests)] == []
