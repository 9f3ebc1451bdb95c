"""An application that answers questions, and what ragtide says about its answers. No key, no model, no network.

    pip install 'ragtide[service,embedded,web]'
    ragtide up                                     # in one terminal: worker, aggregator and page
    python examples/production_monitoring.py       # in another one

The last 200 of 600 questions get the wrong pages from the search, as after a bad rebuild of its index. Users notice.
"""

import asyncio
import re
from uuid import uuid4

from ragtide import AlertSubscriber, Deployment, InteractionProducer

SHOP = "tea-shop"
PAGES = [
    "Sencha is a green tea from Japan. Brew sencha for two minutes at 75 degrees.",
    "Assam is a black tea from India. Its taste is strong and full of malt.",
    "A parcel takes three days within Europe. Shipping is free from 40 euros.",
    "You can return an unopened tin within 30 days. The refund takes a week.",
]
QUESTIONS = ["How do I brew sencha?", "Is assam a black tea?", "How long does a parcel take?", "Can I return a tin?"]


def shared(question: str, text: str) -> int:
    """Return the number of words that a question and a text share."""
    return len(set(re.findall(r"\w+", question.lower())) & set(re.findall(r"\w+", text.lower())))


def answer(question: str, *, index_is_broken: bool) -> tuple[str, str]:
    """Return the page that the search found, and the sentence of it that answers best: your retriever and model."""
    found = max(range(len(PAGES)), key=lambda place: shared(question, PAGES[place]))
    page = PAGES[found - 2 if index_is_broken else found]
    return page, max(page.split(". "), key=lambda sentence: shared(question, sentence))


async def main() -> None:
    """Answer, publish each answer with the user's thumb, wait for an alert, and read the estimates."""
    async with InteractionProducer() as producer:
        for number in range(600):
            question, broken = QUESTIONS[number % len(QUESTIONS)], number >= 400
            page, response = answer(question, index_is_broken=broken)
            key = {"pipeline": SHOP, "interaction_id": uuid4().hex}
            producer.submit(**key, question=question, documents=[page], response=response)
            producer.submit_feedback(**key, gold_scores={"feedback.positive": 0.0 if broken else 1.0})
    print("The answers are published. `ragtide up` scores them, and raises an alert when they become worse.")
    async with AlertSubscriber(pipeline=SHOP, from_start=True) as alerts:
        async for alert in alerts:
            print(alert.message)
            break
    async with Deployment.connect() as deployment:
        for mean in await deployment.headlines("24h", pipeline=SHOP):
            if mean.estimate is not None and mean.lower is not None:
                print(f"{mean.metric:26} {mean.estimate:.3f} ({mean.lower:.3f} to {mean.upper:.3f}), {mean.n} answers")


if __name__ == "__main__":
    asyncio.run(main())
