"""DeepEval: `evaluate` with `AsyncConfig(max_concurrent=...)`, and its cache of test cases."""

import os

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import ContextualRelevancyMetric, FaithfulnessMetric
from deepeval.models import GPTModel
from deepeval.test_case import LLMTestCase
from items import arguments, finish

if __name__ == "__main__":
    items, url, count, folder = arguments()
    os.chdir(folder)  # its cache is in the working directory
    model = GPTModel(model="gpt-4o-mini", api_key="none", base_url=url)
    result = evaluate(
        [
            LLMTestCase(
                name=item["item_id"],
                input=item["question"],
                actual_output=item["response"],
                retrieval_context=item["documents"],
            )
            for item in items
        ],
        metrics=[FaithfulnessMetric(model=model), ContextualRelevancyMetric(model=model)],
        async_config=AsyncConfig(max_concurrent=count),
        cache_config=CacheConfig(write_cache=True, use_cache=True),
        display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
    )
    scored = [all(metric.score is not None for metric in case.metrics_data or []) for case in result.test_results]
    finish(folder, sum(scored))
