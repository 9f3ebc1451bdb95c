"""Opik: `evaluate_on_dict_items` with `scoring_threads=...`, without a server of Opik."""

from items import arguments, finish
from opik.evaluation import evaluate_on_dict_items
from opik.evaluation.metrics import ContextPrecision, Hallucination
from opik.evaluation.models import LiteLLMChatModel

if __name__ == "__main__":
    items, url, count, folder = arguments()
    model = LiteLLMChatModel("openai/gpt-4o-mini", track=False, api_base=url, api_key="none")
    metrics = [Hallucination(model=model, track=False), ContextPrecision(model=model, track=False)]
    rows = [
        {
            "input": item["question"],
            "answer": item["response"],
            "expected_output": item["response"],
            "context": item["documents"],
        }
        for item in items
    ]
    result = evaluate_on_dict_items(
        rows, lambda row: {"output": row["answer"]}, scoring_metrics=metrics, scoring_threads=count
    )
    scored = [all(not score.scoring_failed for score in test.score_results) for test in result.test_results]
    finish(folder, sum(scored))
