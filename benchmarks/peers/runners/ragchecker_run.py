"""RAGChecker: `evaluate` with batches, and `save_path`, from which a second run continues."""

import json

from items import arguments, finish
from ragchecker import RAGChecker, RAGResults

METRICS = ["faithfulness", "claim_recall", "context_precision"]

if __name__ == "__main__":
    items, url, count, folder = arguments()
    saved = folder / "saved.json"
    if saved.exists():
        results = RAGResults.from_json(saved.read_text())
    else:
        rows = [
            {
                "query_id": item["item_id"],
                "query": item["question"],
                "gt_answer": item["response"],
                "response": item["response"],
                "retrieved_context": [
                    {"doc_id": str(number), "text": text} for number, text in enumerate(item["documents"])
                ],
            }
            for item in items
        ]
        results = RAGResults.from_json(json.dumps({"results": rows}))
    checker = RAGChecker(
        extractor_name="openai/gpt-4o-mini",
        checker_name="openai/gpt-4o-mini",
        extractor_api_base=url,
        checker_api_base=url,
        batch_size_extractor=count,
        batch_size_checker=count,
        openai_api_key="none",
    )
    checker.evaluate(results, METRICS, save_path=str(saved))
    finish(folder, sum(all(name in result.metrics for name in METRICS) for result in results.results))
