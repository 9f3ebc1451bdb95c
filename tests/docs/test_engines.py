"""docs/offline/engines.md: the example of DuckDB; `make engines` runs those of the engines."""

from typing import Any

import pyarrow as pa
from tests.offline.test_summarize_batches import bits
from tests.support.doc_pages import page_text, tagged_block

from ragtide import score


def test_the_summary_of_duckdb_has_the_bits_of_one_process() -> None:
    rows = [
        {
            "interaction_id": f"i-{number}",
            "question": "When was the tower built?",
            "documents": [f"The tower was built in {1880 + number}."],
            "response": "The tower was built in 1889." if number else "",
        }
        for number in range(40)
    ]
    names: dict[str, Any] = {"table": pa.Table.from_pylist(rows)}
    exec(compile(tagged_block(page_text("engines"), "engines duckdb"), "documentation", "exec"), names)
    assert bits(names["summary"]) == bits(score(rows[1:], labeler="local", pipeline="shop"))
