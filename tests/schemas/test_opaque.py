"""Printed objects are told apart from texts that only look like one."""

import pytest

from ragtide_schemas.opaque import is_opaque

PRINTED = (
    "<generator object App.stream_answer at 0x7f7a9a8b3890>",
    "<coroutine object Rag.ask at 0x7f7a9a8b3890>",
    "<async_generator object f at 0x7f>",
    "<function f at 0x7f>",
    "<function <lambda> at 0x7f12>",
    "<function a.<locals>.b at 0x7f12>",
    "<bound method A.b of <__main__.A object at 0x7f>>",
    "<module 'json' from '/usr/lib/json.py'>",
    "<class 'str'>",
    "<MagicMock name='a.b()' id='1403'>",
    "<Mock id='1'>",
    "<AsyncMock name='x' id='1'>",
    "<Task pending name='Task-1' coro=<f() running at x.py:1>>",
    "<Future pending>",
    "<Future at 0x7f state=running>",
    "<map object at 0x7f>",
    "<openai.Stream object at 0x7f>",
    "<openai.AsyncStream[openai.types.X] object at 0x7f>",
    "<built-in function len>",
    "<_io.TextIOWrapper name='x' mode='r' encoding='UTF-8'>",
    "<Response [200]>",
    "<Response [200 OK]>",
    "[object Object]",
    "[object Object],[object Object]",
    "[object Promise]",
    "com.x.Y@1a2b",
    "[Ljava.lang.String;@1b6d3586",
    "java.util.stream.ReferencePipeline$3@7ba4f24f",
    "Promise { <pending> }",
    "[Function: answer]",
    "[AsyncFunction: answer]",
    "[AsyncFunction (anonymous)]",
    "[Function (anonymous)]",
    "[class Foo]",
    "Object [AsyncGenerator] {}",
    "System.Threading.Tasks.Task`1[System.String]",
    "System.Collections.Generic.List`1[System.String]",
    "#<Enumerator: [1, 2]:each>",
    "#<Foo:0x000055d5>",
    "0xc000010250",
    "StopEvent(result=AgentOutput(respo...",
    "<NodeWithScore(node=...)>",
    "<list_iterator object at 0x1>",
    "<zip object at 0x7f>",
    "<async_generator_asend object at 0x7f>",
    "<object object at 0x7f>",
    "<frozen importlib>",
    "<langchain_core.runnables.base.RunnableSequence object at 0x1>",
    "<coroutine object f at 0x7f> ",
    "'<generator object f at 0x7f>'",
    "<itertools.chain object at 0x7f>",
    "<Thread(Thread-1, started 1)>",
    "<_asyncio.Task pending>",
    "<MagicMock spec='str' id='1'>",
    "<unknown at 0x7f>",
    "<Foo id=1 at 0x7f00>",
    "<Task finished name='T' result=3>",
    "<lambda>",
)
TEXTS = (
    "<b>Yes</b>",
    "Use <generator object> in Python",
    "f(x=1)",
    "<p>The address is at 0x7f3a</p>",
    "Create(name='x') makes an object.",
    "[1]",
    "[object] means",
    "<function>",
    "user@deadbeef",
    "<a href='x'>Yes</a>",
    "<think>x</think>yes",
    "Foo(bar='x')",
    "<answer>It is (open)</answer>",
    "<generator object> is what Python prints",
    "[see](x)",
    "com.x.Y",
    "a@b.com",
    "anna.K@1a",
    "System.out.println",
    "<T>",
    "<ul><li>object at 0x1</li></ul>",
    "<code>f(x)</code>",
    "System.exit",
    "<module>",
    "<div class='x'>text (y)</div>",
    "<function name> is <b>",
    "<h1 id='object'>A</h1>",
    "<img src='a'/>",
    "Promise { x }",
    "jane.Doe@1a2b",
    "<method name>",
    "<answer object>yes</answer>",
)


@pytest.mark.parametrize("text", PRINTED)
def test_a_printed_object_is_known_with_space_or_quotes_around_it_too(text: str) -> None:
    assert is_opaque(text)
    assert is_opaque(f" {text}\n")
    assert is_opaque(f'"{text}"')
    assert not is_opaque(f"It printed {text}")
    assert not is_opaque(f"{text} is what it printed.") or text.endswith("...")


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_with_tags_calls_or_addresses_is_a_text(text: str) -> None:
    assert not is_opaque(text)
