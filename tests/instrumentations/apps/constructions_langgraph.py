"""Constructions of LangGraph, as applications build them: graphs whose nodes retrieve, grade, rerank and answer."""

import asyncio
import operator
import sys
from typing import Annotated, Any, Literal, TypedDict

import truth
from truth import by_prompt, call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")

from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor

LangChainInstrumentor().instrument()

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import create_retriever_tool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send


class Handbook(BaseRetriever):
    """Searches the handbook."""

    k: int = 3

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [
            Document(text, id=name, metadata={"source": "handbook.md"}) for name, text in truth.search(query, self.k)
        ]


retriever = Handbook()
model = ChatOpenAI(model="gpt-4o-mini", max_retries=0)
broken = ChatOpenAI(model="broken-4o", max_retries=0)


class State(TypedDict, total=False):
    """The state of most graphs."""

    question: str
    context: list[Document]
    draft: str
    answer: str


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def retrieve(state: State) -> State:
    return {"context": retriever.invoke(state["question"])}


def generate(state: State) -> State:
    messages = [
        SystemMessage(f"Answer by these documents:\n{joined(state['context'])}"),
        HumanMessage(state["question"]),
    ]
    return {"answer": str(model.invoke(messages).content)}


def graph_of(*nodes: Any, **options: Any) -> Any:
    graph = StateGraph(State).add_sequence(list(nodes))
    graph.add_edge(START, nodes[0].__name__)
    return graph.compile(**options)


def ask(graph: Any, question: str, config: Any = None) -> str:
    return str(graph.invoke({"question": question}, config)["answer"])


@construction("chain")
def graph_of_two_steps() -> None:
    question = truth.asked()
    saw(question, ask(graph_of(retrieve, generate), question))


@construction("chain_stream")
def graph_streamed() -> None:
    for mode in ("updates", "values"):
        question = truth.asked(1)
        last = list(graph_of(retrieve, generate).stream({"question": question}, stream_mode=mode))[-1]
        saw(question, last.get("generate", last)["answer"])
    question = truth.asked(2)
    stream = graph_of(retrieve, generate).stream({"question": question}, stream_mode="messages")
    saw(question, "".join(str(message.content) for message, _ in stream))


@construction("chain_async")
def graph_awaited() -> None:
    async def main() -> None:
        graph = graph_of(retrieve, generate)
        questions = [truth.asked(topic) for topic in (0, 3)]
        states = await asyncio.gather(*(graph.ainvoke({"question": question}) for question in questions))
        for question, state in zip(questions, states, strict=True):
            saw(question, state["answer"])

    asyncio.run(main())


@construction("stream_closed", "refused (no_content)")
def stream_closed() -> None:
    """The stream of tokens is closed after some of them, and the model goes on."""
    question, shown = truth.asked(4), ""
    with scripted(pause_s=0.02):
        stream = graph_of(retrieve, generate).stream({"question": question}, stream_mode="messages")
        while len(shown.split()) < 3:
            shown += str(next(stream)[0].content)
        stream.close()
    saw(question, shown)


@construction("fallback")
def falls_back() -> None:
    def generate_or_else(state: State) -> State:
        try:
            return {"answer": str(broken.invoke(f"{joined(state['context'])}\n{state['question']}").content)}
        except Exception:  # noqa: BLE001 - as applications do it
            fewer = state["context"][:1]
            return {"answer": str(model.invoke(f"Context: {joined(fewer)}\nQuestion: {state['question']}").content)}

    question = truth.asked(0)
    saw(question, ask(graph_of(retrieve, generate_or_else), question))


@construction("retry")
def retries() -> None:
    from langgraph.types import RetryPolicy

    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node(
        "generate",
        generate,
        retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=lambda _: True),
    )
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    question = truth.asked(1)
    with scripted(truth.failing(1)):
        saw(question, ask(graph.compile(), question))


@construction("failed", "not recorded")
def fails() -> None:
    def answer(state: State) -> State:
        return {"answer": str(broken.invoke(f"{joined(state['context'])}\n{state['question']}").content)}

    try:
        ask(graph_of(retrieve, answer), truth.asked(0))
    except Exception:  # noqa: BLE001 - the service fails
        return


@construction("rerank_step")
def reranks() -> None:
    def rerank(state: State) -> State:
        return {"context": sorted(state["context"], key=lambda found: found.page_content, reverse=True)[:2]}

    question = truth.asked(1)
    saw(question, ask(graph_of(retrieve, rerank, generate), question))


@construction("cut_off")
def cuts_off() -> None:
    def answer(state: State) -> State:
        return generate({**state, "context": state["context"][:1]})

    question = truth.asked(0)
    saw(question, ask(graph_of(retrieve, answer), question))


def corrective(again: str = "") -> Any:
    """Return a graph that grades each document, and searches again if none is relevant (CRAG)."""

    def grade_documents(state: State) -> State:
        kept = [
            document
            for document in state["context"]
            if "yes" in str(
                model.invoke(f"Is it relevant? {document.page_content}\n{state['question']}\nSay yes or no.").content
            )
        ]  # fmt: skip
        return {"context": kept}

    def search_again(state: State) -> State:
        return {"context": retriever.invoke(again)}

    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node("grade_documents", grade_documents)
    graph.add_node("generate", generate)
    graph.add_node("search_again", search_again)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "grade_documents")
    graph.add_conditional_edges(
        "grade_documents", lambda state: "generate" if state["context"] or not again else "search_again"
    )
    graph.add_edge("search_again", "generate")
    graph.add_edge("generate", END)
    return graph.compile()


@construction("grading")
def grades() -> None:
    question = truth.asked(1)
    with scripted(by_prompt(("Say yes or no", lambda text: "yes" if "6650" in text or "source" in text else "no"))):
        saw(question, ask(corrective(), question))


@construction("grading_none")
def grades_all_as_poor() -> None:
    question = truth.asked(1)
    with scripted(by_prompt(("Say yes or no", "no"))):
        saw(question, ask(corrective(), question))


@construction("second_retrieval")
def retrieves_again() -> None:
    question = truth.asked(0)
    with scripted(by_prompt(("Say yes or no", "no"))):
        saw(question, ask(corrective("Titanic Belfast"), question))


@construction("rewritten_question")
def rewrites_the_question() -> None:
    def rewrite(state: State) -> State:
        return {"draft": str(model.invoke(f"Write a better query for: {state['question']}").content)}

    def retrieve_by_draft(state: State) -> State:
        return {"context": retriever.invoke(state["draft"])}

    question = truth.asked(5)
    with scripted(by_prompt(("better query", "Picasso Guernica"))):
        saw(question, ask(graph_of(rewrite, retrieve_by_draft, generate), question))


@construction("checked_answer")
def checks_the_answer() -> None:
    def check(state: State) -> State:
        verdict = model.invoke(f"Documents: {joined(state['context'])}\nIs this grounded? {state['answer']}").content
        return {"draft": str(verdict)}

    question = truth.asked(3)
    with scripted(by_prompt(("Is this grounded?", "yes"))):
        saw(question, ask(graph_of(retrieve, generate, check), question))


@construction("discarded_attempt")
def answers_again_after_a_check() -> None:
    def check_and_correct(state: State) -> State:
        verdict = model.invoke(f"Is this grounded? {state['answer']}").content
        return {} if verdict == "yes" else generate({**state, "context": retriever.invoke("insulin pancreas")})

    question = truth.asked(2)
    answers = iter(["It is made in the liver.", "no", truth.answer_to(question)])
    with scripted(lambda _: next(answers)):
        saw(question, ask(graph_of(retrieve, generate, check_and_correct), question))


class Parts(TypedDict, total=False):
    """The state of a graph with parallel branches."""

    question: str
    part: str
    notes: Annotated[list[str], operator.add]
    answer: str


@construction("sub_questions")
def decomposes() -> None:
    def split(state: Parts) -> Parts:
        return {}

    def research(state: Parts) -> Parts:
        found = joined(Handbook(k=1).invoke(state["part"]))
        return {"notes": [str(model.invoke(f"Context: {found}\nQuestion: {state['part']}").content)]}

    def combine(state: Parts) -> Parts:
        notes = "\n".join(sorted(state["notes"]))
        return {"answer": str(model.invoke(f"Combine these notes: {notes}\nQuestion: {state['question']}").content)}

    graph = StateGraph(Parts)
    for step in (split, research, combine):
        graph.add_node(step.__name__, step)
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", lambda _: [Send("research", {"part": truth.TOPICS[at][0]}) for at in (0, 1)])
    graph.add_edge("research", "combine")
    question = "Is the Eiffel Tower older than the Nile is long? Reply within 901 words."
    final = "It is from 1889, and the river has 6650 kilometres."
    with scripted(by_prompt(("Combine these notes", final))):
        shown = ask(graph.compile(), question)
    documents = [truth.HANDBOOK["tower-built"], truth.HANDBOOK["nile-long"]]
    saw(question, shown, documents, documents_in_any_order=True)


@construction("map_reduce")
def maps_and_reduces() -> None:
    def answer(state: State) -> State:
        parts = [
            str(model.invoke(f"What does this say? {found.page_content}\n{state['question']}").content)
            for found in state["context"]
        ]
        return {"answer": str(model.invoke(f"Combine: {parts}\nQuestion: {state['question']}").content)}

    parts = {"6650 kilometres": "It has 6650 km.", "flows north": "It ends in a sea.", "Victoria": "It has a source."}
    question = truth.asked(1)
    with scripted(by_prompt(("Combine: ", truth.answer_to), *parts.items())):
        shown = ask(graph_of(retrieve, answer), question)
    saw(question, shown, through=[*parts.values(), shown])


@construction("empty_retrieval")
def finds_nothing() -> None:
    question = truth.strange()
    saw(question, ask(graph_of(retrieve, generate), question))


@construction("empty_without_model")
def says_that_it_finds_nothing() -> None:
    def generate_or_apologize(state: State) -> State:
        return generate(state) if state["context"] else {"answer": "Sorry, I found nothing."}

    question = truth.strange()
    saw(question, ask(graph_of(retrieve, generate_or_apologize), question), [])


@construction("empty_answer")
def says_nothing() -> None:
    question = truth.asked(5)
    with scripted(lambda _: ""):
        shown = ask(graph_of(retrieve, generate), question)
    saw(question, shown, [text for _, text in truth.search(question)])


@construction("no_retrieval", "not recorded")
def retrieves_nothing() -> None:
    def generate_alone(state: State) -> State:
        return generate({**state, "context": []})

    ask(graph_of(generate_alone), truth.asked())


@construction("step_without_retriever")
def node_that_asks_the_store() -> None:
    """The store is asked in plain code: the node's output is the only place of the documents."""

    def retrieve_context(state: State) -> State:
        return {"context": [Document(text, id=name) for name, text in truth.search(state["question"], 2)]}

    question = truth.asked(1)
    saw(question, ask(graph_of(retrieve_context, generate), question))


@construction("session")
def has_a_session() -> None:
    with using_attributes(session_id="s-81", user_id="u-7"):
        question = truth.asked(3)
        saw(question, ask(graph_of(retrieve, generate), question), session_id="s-81")


@construction("thread")
def has_a_thread() -> None:
    graph = graph_of(retrieve, generate, checkpointer=InMemorySaver())
    question = truth.asked(4)
    saw(question, ask(graph, question, {"configurable": {"thread_id": "thread-77"}}), session_id="thread-77")


@construction("session_over_thread")
def has_a_session_and_a_thread() -> None:
    graph = graph_of(retrieve, generate, checkpointer=InMemorySaver())
    with using_attributes(session_id="s-82", user_id="u-8"):
        question = truth.asked(4)
        saw(question, ask(graph, question, {"configurable": {"thread_id": "thread-78"}}), session_id="s-82")


# Agents in graphs of their own.


def run(agent: Any, question: str, config: Any = None) -> str:
    return str(agent.invoke({"messages": [HumanMessage(question)]}, config)["messages"][-1].content)


handbook = create_retriever_tool(Handbook(k=2), "handbook", "Search the handbook")


def tool_graph(*tools: Any, **options: Any) -> Any:
    """Return the graph of the tutorials: a model, the tools, and back."""
    asking = model.bind_tools(list(tools))

    def assistant(state: MessagesState) -> dict[str, Any]:
        return {"messages": [asking.invoke([SystemMessage("Answer by the handbook."), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("assistant", assistant)
    graph.add_node("tools", ToolNode(list(tools)))
    graph.add_edge(START, "assistant")
    graph.add_conditional_edges("assistant", tools_condition)
    graph.add_edge("tools", "assistant")
    return graph.compile(**options)


@construction("agent")
def agent_with_a_retriever() -> None:
    question = truth.asked(1)
    with scripted(truth.after_tools(call("handbook", query="Nile length"))):
        saw(question, run(tool_graph(handbook), question))


@construction("agent_memory")
def agent_with_memory() -> None:
    agent = tool_graph(handbook, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "thread-79"}}
    earlier: list[str] = []
    for topic, query in ((1, "Nile length"), (3, "Titanic sank")):
        question = truth.asked(topic)
        with scripted(truth.after_tools(call("handbook", query=query))):
            shown = run(agent, question, config)
        documents = [text for _, text in truth.search(query, 2)]
        saw(question, shown, documents, history=list(earlier))
        earlier.append(question)
    run(agent, "Thank you!", config)


@construction("tool_error")
def tool_that_fails_first() -> None:
    outcomes = iter([True, False])

    @tool
    def search_documents(query: str) -> str:
        """Search the documents."""
        if next(outcomes):
            raise RuntimeError("the index timed out")
        return truth.search(query)[0][1]

    asking = StateGraph(MessagesState)
    bound = model.bind_tools([search_documents])
    asking.add_node("assistant", lambda state: {"messages": [bound.invoke(state["messages"])]})
    asking.add_node("tools", ToolNode([search_documents], handle_tool_errors=True))
    asking.add_edge(START, "assistant")
    asking.add_conditional_edges("assistant", tools_condition)
    asking.add_edge("tools", "assistant")
    question = truth.asked(1)
    with scripted(truth.after_tools(*[call("search_documents", query="Nile long")] * 2)):
        saw(question, run(asking.compile(), question), failed=1)


@construction("sub_agents")
def researcher_then_writer() -> None:
    agent = create_agent(model, tools=[handbook], system_prompt="You are a researcher.", name="researcher")

    def research(state: State) -> State:
        return {"draft": run(agent, f"Research this: {state['question']}")}

    def write(state: State) -> State:
        return {"answer": str(model.invoke(f"Write an answer from: {state['draft']}\n{state['question']}").content)}

    question = "What is special about the Nile? Reply within 902 words."
    notes, final = "The Nile has 6650 kilometres.", "It is very long, with 6650 kilometres."
    inner = truth.after_tools(call("handbook", query="river Nile"), final=lambda _: notes)

    def script(messages: list[dict[str, Any]]) -> Any:
        return inner(messages) if "You are a researcher" in truth.prompt_of(messages[:1]) else final

    with scripted(script):
        shown = ask(graph_of(research, write), question)
    saw(question, shown, through=[notes, final])


class Team(MessagesState):
    """The messages that all agents share."""


@construction("supervisor")
def supervised() -> None:
    researcher = create_agent(model, tools=[handbook], system_prompt="You are a researcher.", name="researcher")

    def supervisor(state: Team) -> Command[Literal["research", "finish"]]:
        messages = [SystemMessage("You are a supervisor. Say research or finish."), *state["messages"]]
        return Command(goto=str(model.invoke(messages).content))  # type: ignore[arg-type]

    def research(state: Team) -> Command[Literal["supervisor"]]:
        last: AnyMessage = researcher.invoke({"messages": state["messages"]})["messages"][-1]
        return Command(goto="supervisor", update={"messages": [AIMessage(str(last.content), name="researcher")]})

    def finish(state: Team) -> dict[str, Any]:
        messages = [SystemMessage("You write the final answer."), *state["messages"]]
        return {"messages": [model.invoke(messages)]}

    graph = StateGraph(Team)
    for step in (supervisor, research, finish):
        graph.add_node(step.__name__, step)
    graph.add_edge(START, "supervisor")
    graph.add_edge("finish", END)
    question = "What should I know about the Titanic? Reply within 903 words."
    notes, final = "It sank in April 1912.", "You should know that it sank in 1912."
    inner = truth.after_tools(call("handbook", query="Titanic sank"), final=lambda _: notes)
    decisions = iter(["research", "finish"])

    def script(messages: list[dict[str, Any]]) -> Any:
        first = truth.prompt_of(messages[:1])
        if "supervisor" in first:
            return next(decisions)
        return inner(messages) if "You are a researcher" in first else final

    with scripted(script):
        shown = run(graph.compile(), question)
    saw(question, shown, through=[notes, final])


@construction("sub_graph")
def graph_in_a_graph() -> None:
    inner = graph_of(retrieve, generate)

    def answer_in_sub_graph(state: State) -> State:
        return {"answer": ask(inner, state["question"])}

    question = truth.asked(0)
    saw(question, ask(graph_of(answer_in_sub_graph), question))


truth.run_all(sys.argv[1:])
