r"""Make the demo's interactions from the data sets that may be passed on; see ATTRIBUTION.md beside them.

    python benchmarks/make_demo_data.py RAGBENCH.jsonl CLAPNQ.jsonl \
        > offline/ragtide_offline/data/demo_interactions.jsonl

HotpotQA and HAGRID rows of RAGBench, with few unsupported answers as in real traffic, and the answerable ClapNQ
questions with their human answers, in an order that mixes them.
"""

import json
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ragtide_producers.files.columns import interaction_fields
from ragtide_producers.files.labeled import ragbench_fields
from ragtide_schemas import RagInteraction

SUBSETS = ("hotpotqa", "hagrid")
UNSUPPORTED_KEPT = 4


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def from_ragbench(path: Path) -> list[dict[str, Any]]:
    """Return the chosen RAGBench rows as interactions."""
    found = []
    for subset in SUBSETS:
        chosen = [row for row in rows(path) if row["subset"] == subset]
        unsupported = [row for row in chosen if not row["adherence_score"]][:UNSUPPORTED_KEPT]
        kept = [row for row in chosen if row["adherence_score"]] + unsupported
        found += [interaction_fields(ragbench_fields(row), {})[0] | {"pipeline": "demo"} for row in kept]
    return found


def from_clapnq(path: Path) -> list[dict[str, Any]]:
    """Return the answerable ClapNQ questions as interactions."""
    return [
        {
            "interaction_id": f"clapnq-{row['id']}",
            "pipeline": "demo",
            "question": row["question"],
            "documents": [{"id": row["title"], "text": row["passage"].strip()}],
            "response": row["answer"].strip(),
            "segments": {"dataset": "clapnq"},
            "source": "clapnq",
        }
        for row in rows(path)
        if row["answerable"]
    ]


def main() -> None:
    """Write the interactions, the models left out of the segments."""
    found = from_ragbench(Path(sys.argv[1])) + from_clapnq(Path(sys.argv[2]))
    for fields in sorted(found, key=lambda f: blake2b(f["interaction_id"].encode(), digest_size=8).digest()):
        fields["segments"] = {"dataset": fields["segments"]["dataset"]}
        interaction = RagInteraction(**fields)
        print(interaction.model_dump_json(exclude={"occurred_at", "schema_version"}, exclude_defaults=True))


if __name__ == "__main__":
    main()
