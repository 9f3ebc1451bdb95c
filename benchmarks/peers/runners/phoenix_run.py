"""Phoenix evals: `async_evaluate_dataframe` with `concurrency=...`."""

import asyncio

import pandas as pd
from items import arguments, finish
from phoenix.evals import LLM, async_evaluate_dataframe
from phoenix.evals.metrics import FaithfulnessEvaluator, RetrievalRelevanceEvaluator

if __name__ == "__main__":
    items, url, count, folder = arguments()
    # Its own limiter of requests a second would be the limit otherwise.
    model = LLM(
        provider="openai",
        model="gpt-4o-mini",
        base_url=url,
        api_key="none",
        initial_per_second_request_rate=10_000,
    )
    frame = pd.DataFrame(
        {
            "input": item["question"],
            "output": item["response"],
            "context": "\n\n".join(item["documents"]),
        }
        for item in items
    )
    evaluators = [FaithfulnessEvaluator(llm=model), RetrievalRelevanceEvaluator(llm=model)]
    found = asyncio.run(
        async_evaluate_dataframe(dataframe=frame, evaluators=evaluators, concurrency=count, hide_tqdm_bar=True)
    )
    scores = found[[name for name in found.columns if name.endswith("_score")]]
    finish(folder, int(scores.notna().all(axis=1).sum()))
