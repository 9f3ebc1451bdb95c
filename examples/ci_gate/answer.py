"""Let the pipeline answer a fixed set of questions, one JSON object a line: what a gate in CI scores.

    python examples/ci_gate/answer.py > answers.jsonl

The pipeline and the questions are those of `examples/bm25_rag`. In their place put yours.
"""

import json
import sys
from pathlib import Path

from ragtide import read_items

PIPELINE = Path(__file__).parents[1] / "bm25_rag"
sys.path.insert(0, str(PIPELINE))


def main() -> None:
    """Print the answers."""
    from rag import answer  # noqa: PLC0415 - its folder is on the path only now

    for item in read_items(PIPELINE / "questions.jsonl"):
        documents, response = answer(item.question, top_k=2, chunk_sentences=0, answer_sentences=1)
        row = {
            "interaction_id": item.item_id,  # the same in every run, so that runs are compared pair by pair
            "pipeline": "bm25",
            "question": item.question,
            "documents": documents,
            "response": response,
        }
        print(json.dumps(row))


if __name__ == "__main__":
    main()
