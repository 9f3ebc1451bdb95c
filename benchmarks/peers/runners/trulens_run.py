"""TruLens: `BatchEvaluator` with `max_workers=...`, and the provider for OpenAI.

Statements are split by the model, because the default downloads data of NLTK in every run.
"""

import pandas as pd
from items import arguments, finish
from trulens.core import BatchEvaluator, Metric, Selector
from trulens.core.metric.metric import GroundednessConfigs
from trulens.providers.openai import OpenAI

if __name__ == "__main__":
    items, url, count, folder = arguments()
    provider = OpenAI(model_engine="gpt-4o-mini", base_url=url, api_key="none", rpm=1_000_000)
    configs = GroundednessConfigs(use_sent_tokenize=False, filter_trivial_statements=True)

    def groundedness(source: str, statement: str) -> tuple[float, dict]:
        """Return the share of the statements that the source supports, with reasons."""
        return provider.groundedness_measure_with_cot_reasons(source, statement, groundedness_configs=configs)

    metrics = [
        Metric(
            name="groundedness",
            implementation=groundedness,
            selectors={"source": Selector.from_column("context"), "statement": Selector.from_column("answer")},
        ),
        Metric(
            name="context_relevance",
            implementation=provider.context_relevance_with_cot_reasons,
            selectors={"question": Selector.from_column("query"), "context": Selector.from_column("context")},
        ),
    ]
    frame = pd.DataFrame(
        {"query": item["question"], "answer": item["response"], "context": "\n\n".join(item["documents"])}
        for item in items
    )
    results = BatchEvaluator(metrics=metrics, max_workers=count).evaluate(frame)
    finish(folder, int(results[[metric.name for metric in metrics]].notna().all(axis=1).sum()))
