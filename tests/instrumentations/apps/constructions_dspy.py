"""Constructions of DSPy, as applications build them: modules with a retriever, several hops, attempts and agents."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import truth
from truth import HANDBOOK, MODEL, Failure, Reply, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")
from openinference.instrumentation.dspy import DSPyInstrumentor

DSPyInstrumentor().instrument()

import dspy
from openinference.instrumentation import using_attributes
from opentelemetry import trace

application = trace.get_tracer("application")


def handbook(query: str, k: int = 3, **_: Any) -> list[Any]:
    """Return the passages of the handbook."""
    return [dspy.Example(long_text=text) for _, text in truth.search(query, k)]


def lm_of(model: str = "gpt-4o-mini", **options: Any) -> dspy.LM:
    return dspy.LM(f"openai/{model}", api_base=truth.URL, api_key="sk-test", cache=False, num_retries=0, **options)


dspy.configure(lm=lm_of(), rm=handbook)


def fields(**values: str) -> str:
    """Return a reply in the form that DSPy asks for."""
    return "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in values.items()) + "[[ ## completed ## ]]"


def in_turn(*replies: Reply) -> Callable[[list[dict[str, Any]]], Reply]:
    """Return a script that gives one reply after another."""
    left = list(replies)
    return lambda _: left.pop(0)


def answered(module: dspy.Module, question: str, *replies: Reply, **more: Any) -> None:
    """Ask a module, and note what was seen."""
    with scripted(in_turn(*replies)):
        shown = str(module(question=question).response)
    saw(question, shown, **{"through": [str(replies[-1])], **more})


class Rag(dspy.Module):
    """The module of DSPy's tutorial."""

    def __init__(self, choose: Callable[[list[str]], list[str]] = lambda texts: texts, lm: Any = None) -> None:
        super().__init__()
        self.retrieve = dspy.Retrieve(k=3)
        self.respond = dspy.ChainOfThought("context, question -> response")
        self.choose = choose
        if lm is not None:
            self.respond.set_lm(lm)

    def forward(self, question: str) -> Any:
        return self.respond(context=self.choose(self.retrieve(question).passages), question=question)


ANSWER = fields(reasoning="The first passage says so.", response="It was built in 1889, by reasoning.")


@construction("chain")
def chain() -> None:
    answered(Rag(), truth.asked(), ANSWER)


@construction("plain_predict")
def predicted() -> None:
    class Plain(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.retrieve, self.respond = dspy.Retrieve(k=2), dspy.Predict("context, question -> response")

        def forward(self, question: str) -> Any:
            return self.respond(context=self.retrieve(question).passages, question=question)

    answered(Plain(), truth.asked(1), fields(response="It is 6650 kilometres long, predicted."))


@construction("chain_async")
def awaited() -> None:
    class Awaited(Rag):
        async def aforward(self, question: str) -> Any:
            return await self.respond.acall(context=self.retrieve(question).passages, question=question)

    async def main(questions: list[str]) -> list[str]:
        found = await asyncio.gather(*(Awaited().acall(question=question) for question in questions))
        return [str(prediction.response) for prediction in found]

    def script(messages: list[dict[str, Any]]) -> str:
        return fields(reasoning="So it is.", response=truth.answer_to(truth.text_of(messages[-1])))

    questions = [truth.asked(topic) for topic in range(3)]
    with scripted(script):
        shown = asyncio.run(main(questions))
    for question, response in zip(questions, shown, strict=True):
        saw(question, response, through=[fields(reasoning="So it is.", response=response)])


@construction("rerank_step")
def reranked() -> None:
    module = Rag(lambda texts: [text for text in reversed(texts) if any(char.isdigit() for char in text)])
    answered(module, truth.asked(), ANSWER)


@construction("cut_off")
def cut_off() -> None:
    answered(Rag(lambda texts: texts[:2]), truth.asked(), ANSWER)


@construction("cut_texts")
def shortened() -> None:
    question = truth.asked()
    answered(
        Rag(lambda texts: [text[:30] for text in texts]), question, ANSWER,
        documents=[text[:30] for _, text in truth.search(question, 3)],
    )  # fmt: skip


@construction("empty_retrieval")
def empty() -> None:
    with dspy.context(rm=lambda *_, **__: []):
        reply = fields(reasoning="There is nothing.", response="I do not know that.")
        answered(Rag(), truth.asked(), reply, documents=[])


@construction("empty_without_model")
def empty_without_model() -> None:
    class Guarded(Rag):
        def forward(self, question: str) -> Any:
            passages = self.retrieve(question).passages
            if not passages:
                return dspy.Prediction(response="I found nothing on that.")
            return self.respond(context=passages, question=question)

    question = truth.asked()
    with dspy.context(rm=lambda *_, **__: []):
        saw(question, Guarded()(question=question).response, [])


@construction("empty_answer")
def empty_answer() -> None:
    answered(Rag(), truth.asked(), fields(reasoning="Nothing is known.", response=""))


@construction("two_hops")
def two_hops() -> None:
    class Hops(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.retrieve = dspy.Retrieve(k=1)
            self.query = dspy.ChainOfThought("context, question -> query")
            self.respond = dspy.ChainOfThought("context, question -> response")

        def forward(self, question: str) -> Any:
            context: list[str] = []
            for _ in range(2):
                query = self.query(context=context, question=question).query
                context += self.retrieve(query).passages
            return self.respond(context=context, question=question)

    answered(
        Hops(),
        f"{truth.asked(1)} And who discovered Pluto?",
        fields(reasoning="First the river.", query="the river Nile long"),
        fields(reasoning="Then the planet.", query="Pluto discovered"),
        fields(reasoning="Both are there.", response="6650 kilometres, and Tombaugh."),
    )


@construction("sub_questions")
def sub_questions() -> None:
    class Split(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rag, self.join = Rag(lambda texts: texts[:1]), dspy.Predict("answers, question -> response")

        def forward(self, question: str) -> Any:
            answers = [self.rag(question=part).response for part in PARTS]
            return self.join(answers=answers, question=question)

    parts = [
        fields(reasoning="It is said.", response="In 1889 it was."),
        fields(reasoning="It is said, too.", response="6650 kilometres it is."),
    ]
    last = fields(response="In 1889, and 6650 kilometres.")
    question = f"{truth.asked()} And how long is the Nile?"
    answered(Split(), question, *parts, last, through=[*parts, last])


PARTS = ("When was the Eiffel Tower built?", "How long is the river Nile?")


@construction("fallback_by_hand")
def fallback() -> None:
    class Either(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Rag(lambda _: [HANDBOOK["guernica"]], lm_of("broken")), Rag()

        def forward(self, question: str) -> Any:
            with suppress(Exception):
                return self.first(question=question)
            return self.second(question=question)

    answered(Either(), truth.asked(), ANSWER)


@construction("discarded_attempt")
def refined() -> None:
    module = dspy.Refine(module=Rag(), N=2, reward_fn=lambda _, shown: float("1889" in shown.response), threshold=1.0)
    advice = fields(
        discussion="The response lacks a year.", advice=json.dumps({"respond.predict": "Give a year.", "retrieve": "-"})
    )
    poor = fields(reasoning="I am not sure.", response="Nobody knows.")

    def script(messages: list[dict[str, Any]]) -> str:
        prompt = truth.prompt_of(messages)
        if "`advice`" in prompt:
            return advice
        return ANSWER if "Give a year." in prompt else poor

    question = truth.asked()
    with scripted(script):
        shown = str(module(question=question).response)
    saw(question, shown, through=[ANSWER])


@construction("failed", "not recorded")
def failed() -> None:
    with scripted(lambda _: Failure()), suppress(Exception):
        Rag()(question=truth.asked())


@construction("no_retrieval", "not recorded")
def no_retrieval() -> None:
    with scripted(in_turn(fields(response="Hello to you, too."))):
        dspy.Predict("question -> response")(question="Hello!")


@construction("retrieval_only", "not recorded")
def retrieval_only() -> None:
    dspy.Retrieve(k=2)(truth.asked())


@construction("history")
def history() -> None:
    class Chat(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.retrieve = dspy.Retrieve(k=2)
            self.respond = dspy.Predict(Reply_)

        def forward(self, question: str) -> Any:
            past = dspy.History(messages=[{"question": "Do you know Paris?", "response": "Yes, I do."}])
            return self.respond(context=self.retrieve(question).passages, question=question, history=past)

    answered(Chat(), truth.asked(), fields(response="It was built in 1889, as I said."))


class Reply_(dspy.Signature):  # noqa: N801 - beside the name of the truth
    """Answer the question by the context."""

    context: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    history: dspy.History = dspy.InputField()
    response: str = dspy.OutputField()


@construction("session")
def session() -> None:
    with using_attributes(session_id="s-81", user_id="u-7"):
        answered(Rag(), truth.asked(), ANSWER, session_id="s-81")


@construction("session_on_span")
def session_on_span() -> None:
    with application.start_as_current_span("request", attributes={"session.id": "s-83"}):
        answered(Rag(), truth.asked(), ANSWER, session_id="s-83")


@construction("two_questions")
def two_questions() -> None:
    with application.start_as_current_span("nightly run"):
        answered(Rag(), truth.asked(), ANSWER)
        answered(Rag(), truth.asked(1), fields(reasoning="So it is.", response="It is 6650 kilometres long."))


def search_handbook(query: str) -> list[str]:
    """Search the handbook."""
    return [text for _, text in truth.search(query, 2)]


def search_objects(query: str) -> list[dict[str, str]]:
    """Search the handbook, and return objects."""
    return [{"id": name, "text": text} for name, text in truth.search(query, 2)]


def weather(city: str) -> str:
    """Return the weather of a city."""
    return truth.WEATHER


def _acts(tool: str, **arguments: str) -> str:
    return fields(next_thought="I need a tool.", next_tool_name=tool, next_tool_args=json.dumps(arguments))


FINISHED = fields(next_thought="I have it all.", next_tool_name="finish", next_tool_args="{}")


@construction("react")
def react() -> None:
    for tool in (search_handbook, search_objects):
        agent = dspy.ReAct("question -> response", tools=[tool], max_iters=3)
        acts = _acts(tool.__name__, query="Eiffel Tower built")
        answered(agent, truth.asked(), acts, FINISHED, ANSWER, calls=[(1, tool.__name__)])
        MODEL.requests.clear()


@construction("react_two_rounds")
def react_with_two_tools() -> None:
    agent = dspy.ReAct("question -> response", tools=[search_handbook, weather], max_iters=4)
    question = f"{truth.asked()} And how warm is it there?"
    acts = _acts("search_handbook", query="Eiffel Tower built"), _acts("weather", city="Paris")
    answered(agent, question, *acts, FINISHED, ANSWER, calls=[(1, "search_handbook"), (2, "weather")])


@construction("chain_as_tool")
def module_as_tool() -> None:
    rag = Rag(lambda texts: texts[:2])

    def ask_handbook(question: str) -> str:
        """Answer by the handbook."""
        return str(rag(question=question).response)

    agent = dspy.ReAct("question -> response", tools=[ask_handbook], max_iters=3)
    inner = fields(reasoning="It is said.", response="In 1889 it was.")
    last = fields(reasoning="The tool says so.", response="Finally: in 1889.")
    acts = _acts("ask_handbook", question="the year of the Eiffel Tower")
    answered(agent, truth.asked(), acts, inner, FINISHED, last, through=[inner, last], calls=[(1, "ask_handbook")])


MODEL.requests.clear()
truth.run_all(sys.argv[1:])
