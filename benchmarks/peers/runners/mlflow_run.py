"""MLflow: `genai.evaluate` with two judges of `make_judge`, and a tracking store in a file of its own."""

import os

from items import arguments, finish

if __name__ == "__main__":
    items, url, count, folder = arguments()
    os.environ |= {
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_GENAI_EVAL_MAX_WORKERS": str(count),
        "MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT": "0",
        "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": str(2 * count),
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    os.chdir(folder)
    import mlflow  # it reads the environment
    from mlflow.genai.judges import make_judge

    rules = {
        "faithfulness": "Is every claim of {{ outputs }} supported by the documents in {{ inputs }}?",
        "relevance": "Are the documents in {{ inputs }} relevant to the question in it?",
    }
    judges = [
        make_judge(
            name=name,
            instructions=rule,
            model="openai:/gpt-4o-mini",
            base_url=f"{url}/chat/completions",
            feedback_value_type=bool,
        )
        for name, rule in rules.items()
    ]
    rows = [
        {
            "inputs": {"question": item["question"], "documents": item["documents"]},
            "outputs": item["response"],
        }
        for item in items
    ]
    found = mlflow.genai.evaluate(data=rows, scorers=judges).tables["eval_results"]
    columns = [f"{name}/value" for name in rules]
    finish(folder, int(found[columns].notna().all(axis=1).sum()))
