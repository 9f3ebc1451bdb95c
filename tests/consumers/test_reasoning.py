"""The reasoning that a model writes into an answer is never scored; a text about its tags stays whole."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import judge

from ragtide import LocalLabeler, RagInteraction
from ragtide.testing import ScriptedJudge
from ragtide_consumers.metrics.scores import outcome_scores
from ragtide_consumers.text.reasoning import answer_of
from ragtide_consumers.text.sentences import cut
from ragtide_schemas.criterion import Criterion

ANSWER = "The pump must be serviced every 6 months. The filter is cleaned with warm water."
THOUGHTS = "Every 9 months? No.\nThe acid is cold."

BLOCKS = {
    "think": f"<think>\n{THOUGHTS}\n</think>\n\n",
    "on one line": f"<think>{THOUGHTS}</think>",
    "with spaces": f"<think> {THOUGHTS} </think> ",
    "thinking": f"<thinking>{THOUGHTS}</thinking>\n",
    "with attributes": f'<reasoning effort="high">{THOUGHTS}</reasoning>',
    "of a namespace": f"<seed:think>{THOUGHTS}</seed:think>",
    "begin and end": f"<|begin_of_thought|>{THOUGHTS}<|end_of_thought|>\n\n",
    "triangles": f"◁think▷{THOUGHTS}◁/think▷",
    "brackets": f"[THINK]{THOUGHTS}[/THINK]",
    "details": f'<details type="reasoning"><summary>Thought for 3 s</summary>{THOUGHTS}</details>\n',
    "two": f"<think>{THOUGHTS}</think>\n<think>{THOUGHTS}</think>\n",
    "a lone end": f"{THOUGHTS}\n</think>\n\n",
    "a lone end on the line": f"{THOUGHTS}</think>",
    "a lone end between spaces": f"{THOUGHTS} </think> ",
    "harmony": f"<|channel|>analysis<|message|>{THOUGHTS}<|end|><|start|>assistant<|channel|>final<|message|>",
    "harmony with a commentary": f"<|start|>assistant<|channel|>analysis<|message|>{THOUGHTS}<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>",
    "harmony without its tokens": f"analysis{THOUGHTS}assistantfinal",
}

ABOUT = (
    "Use `<think>` and `</think>` around it.",
    "```\n<think>\nx\n</think>\n```\nThat is the format.",
    "Models write <think> and </think> around it.",
    "Write </think> to close the block.",
    'The tag "<think>" opens and "</think>" closes it.',
    "Two tags exist. <think> and </think> are used.",
    "The block ends with </think>.",
    "See (<think>…</think>) there.",
    "- <think>: opens\n- </think>: closes",
    "Analysis of the pump shows that x < 3.",
    "An answer stays.\n<think>\nA block without an end hides no answer before it.",
)


def asked(response: str) -> RagInteraction:
    return RagInteraction(
        pipeline="p",
        question="How is the pump serviced, and how is the filter cleaned?",
        documents=[f"{ANSWER} The warranty ends after 24 months."],
        response=response,
    )


@pytest.mark.pure
@pytest.mark.parametrize("block", BLOCKS)
def test_an_answer_scores_as_without_its_reasoning(block: str) -> None:
    plain, thought = asked(ANSWER), asked(BLOCKS[block] + ANSWER)
    assert cut(thought).response == cut(plain).response
    labeler = LocalLabeler()
    assert labeler.label_now(thought).scores == labeler.label_now(plain).scores


@pytest.mark.pure
@pytest.mark.parametrize("text", ABOUT)
def test_a_text_about_the_tags_stays_whole(text: str) -> None:
    assert answer_of(text) == text


@pytest.mark.pure
@pytest.mark.parametrize(
    "text", ["<think>so", " \n<think>\nso", "<think>so</think>\n", "so.\n</think>", "<|channel|>analysis<|message|>so"]
)
def test_reasoning_alone_is_no_response(text: str) -> None:
    found = LocalLabeler().label_now(asked(text))
    assert found.absent["trace.adherence"] == "no_response"
    assert outcome_scores(asked(text))["response.empty"] == 1.0


WORDS = st.text(st.sampled_from("ab .\n<>/`é塔"), max_size=80)


@pytest.mark.pure
@given(WORDS, WORDS)
def test_what_stands_after_a_block_is_the_answer(thoughts: str, answer: str) -> None:
    thoughts = thoughts.replace("`", "")
    assert answer_of(f"<think>{thoughts}</think>{answer}") == answer
    assert answer_of(f"{thoughts}.</think>\n{answer}") == f"\n{answer}"
    assert answer_of(answer) == answer


@pytest.mark.pure
@pytest.mark.parametrize(
    "unit",
    [
        "<think>",
        "</think>\n",
        "\n<think>",
        "<",
        "`",
        "```",
        "[THINK]",
        "a.<think>x",
        "<|channel|>a",
        "<think>a</think>",
    ],
)
def test_the_time_grows_with_the_length(unit: str) -> None:
    started = time.process_time()
    answer_of("a\n" + unit * (1_000_000 // len(unit)))
    # A guard against quadratic work, which takes minutes for so much: no measurement.
    assert time.process_time() - started < 5


async def test_no_judge_reads_the_reasoning_of_an_answer(server: ScriptedJudge) -> None:
    criterion = Criterion(name="polite", question="Is it polite?", scale="yes_no", needs=["response", "history"])
    interaction = asked(BLOCKS["think"] + ANSWER)
    interaction = RagInteraction(
        **interaction.model_dump() | {"history": [{"question": "Hm?", "response": BLOCKS["harmony"] + "Yes."}]}
    )
    async with judge(server, criteria=[criterion], language="en", families=["trace", "ragchecker"]) as labeler:
        await labeler.label(interaction)
    prompts = str(server.requests)
    assert "serviced every 6 months" in prompts
    assert "acid" not in prompts
