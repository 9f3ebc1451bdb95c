"""Files that a new user has in the journeys: answers, rules, programs."""

from typing import Final

ANSWERS: Final = """
import json
for number in range(60):
    good = number % 4 == 0
    row = {
        "interaction_id": f"i-{number}", "pipeline": "shop", "question": "When was the tower built?",
        "documents": ["The tower was built in 1889. It is made of iron."],
        "response": "The tower was built in 1889." if good else "It is a bridge over the river Thames.",
        "segments": {"model": "a-model-with-a-very-long-name-20240307"},
    }
    print(json.dumps(row))
"""

APPLICATION: Final = """
from ragtide import InteractionProducer
with InteractionProducer() as producer:
    for number in range(40):
        name, documents = f"a-{number}", ["The tower was built in 1889."] if number % 8 else []
        producer.submit(
            pipeline="app", interaction_id=name, question="When was it built?", segments={"lang": "en"},
            documents=documents, response="It was built in 1889.",
        )
        if documents:  # a thumb is for an answer that the labeler scores
            producer.submit_feedback(pipeline="app", interaction_id=name, gold_scores={"trace.adherence": 1.0})
    assert producer.flush(60)
    print(producer.counts)
"""

RULES: Final = """
[[alerts]]
name = "adherence-low"
metric = "trace.adherence"
kind = "threshold"
target = 0.8
"""

MISTYPED: Final = RULES.replace("trace.adherence", "trace.adherance")


FEW: Final = """
{"pipeline": "few", "question": "When was it built?", "documents": ["It was built in 1889."], "response": "No idea."}
{"pipeline": "few", "question": "Who built it?", "documents": ["It was built in 1889."], "response": "A bridge."}
"""

FOREIGN: Final = '{"question": "Is it tall?"}\n' * 40

RAGAS: Final = (
    '{"user_input": "When was it built?", "retrieved_contexts": ["It was built in 1889."], '
    '"response": "In 1889.", "reference": "In 1889."}\n'
) * 40

FIELD: Final = RULES.replace("target", "traget")

NOTEBOOK: Final = """
from ragtide import score
summary = score("answers.jsonl")
print(repr(summary))
"""
