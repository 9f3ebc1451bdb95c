"""pydantic_evals: `Dataset.evaluate_sync` with `max_concurrency=...` and two `LLMJudge`s."""

from items import arguments, finish
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import LLMJudge

RUBRICS = {
    "faithfulness": "Every claim of the output is supported by the documents of the input.",
    "relevance": "The documents of the input are relevant to its question.",
}


async def answer_of(inputs: dict) -> str:
    """Return the answer that the application gave."""
    return inputs["answer"]


if __name__ == "__main__":
    items, url, count, folder = arguments()
    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(base_url=url, api_key="none"))
    judges = [
        LLMJudge(
            rubric=rubric,
            model=model,
            include_input=True,
            score={"evaluation_name": name, "include_reason": True},
            assertion=False,
        )
        for name, rubric in RUBRICS.items()
    ]
    cases = [
        Case(
            name=item["item_id"],
            inputs={"question": item["question"], "documents": item["documents"], "answer": item["response"]},
        )
        for item in items
    ]
    dataset = Dataset(name="items", cases=cases, evaluators=judges)
    report = dataset.evaluate_sync(answer_of, max_concurrency=count, progress=False)
    finish(folder, sum(set(RUBRICS) <= set(case.scores) for case in report.cases))
