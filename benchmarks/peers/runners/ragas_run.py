"""Ragas: `evaluate` with `RunConfig(max_workers=...)`, and its disk cache of answers."""

import math

from items import arguments, finish
from openai import AsyncOpenAI
from ragas import EvaluationDataset, RunConfig, evaluate
from ragas.cache import DiskCacheBackend
from ragas.llms import llm_factory
from ragas.metrics import Faithfulness, LLMContextPrecisionWithoutReference, LLMContextRecall

if __name__ == "__main__":
    items, url, count, folder = arguments()
    rows = [
        {
            "user_input": item["question"],
            "retrieved_contexts": item["documents"],
            "response": item["response"],
            "reference": item["response"],
        }
        for item in items
    ]
    client = AsyncOpenAI(base_url=url, api_key="none")
    model = llm_factory("gpt-4o-mini", client=client, cache=DiskCacheBackend(str(folder / "cache")))
    result = evaluate(
        EvaluationDataset.from_list(rows),
        metrics=[Faithfulness(), LLMContextPrecisionWithoutReference(), LLMContextRecall()],
        llm=model,
        run_config=RunConfig(max_workers=count),
        show_progress=False,
    )
    finish(folder, sum(not any(map(math.isnan, scores.values())) for scores in result.scores))
