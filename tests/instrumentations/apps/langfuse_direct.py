"""The Langfuse SDK, whose address is that of ragtide: no line of the application knows ragtide."""

from langfuse import get_client, observe
from langfuse.openai import OpenAI

client = OpenAI()


@observe(as_type="retriever")
def search(question: str) -> list[dict[str, object]]:
    return [{"id": "t1", "text": "The tower was built in 1889."}, {"id": "t2", "text": "It stands in Paris."}]


@observe()
def answer(question: str) -> str | None:
    context = "\n".join(str(found["text"]) for found in search(question))
    system = {"role": "system", "content": f"Answer by these documents:\n{context}"}
    messages = [system, {"role": "user", "content": question}]
    return client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message.content


answer("When was the tower built?")
get_client().flush()
