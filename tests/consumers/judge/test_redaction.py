"""A judge reads redacted texts, and its labels still name the sentences of the interaction."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER, judge

from ragtide import RagInteraction
from ragtide.testing import ScriptedJudge
from ragtide_consumers.text.sentences import SPLITTER_ID, cut
from ragtide_schemas import SentenceLabels

pytestmark = pytest.mark.processes

PRIVATE = RagInteraction(
    **TOWER.model_dump()
    | {
        "question": "I am anna@example.com: when was it built?",
        "documents": ["It was built in 1889. Ask bob@example.com.", "Call +49 30 1234567 for a tour."],
        "response": "It was built in 1889. Ask bob@example.com.",
        "reference_answer": "It was built in 1889, says eve@example.com.",
        "history": [{"question": "Is carl@example.com there?", "response": "No."}],
    }
)


async def test_no_prompt_has_a_redacted_place_and_labels_name_the_same_sentences(server: ScriptedJudge) -> None:
    async with judge(server, redact=("email", "phone"), families=("trace", "ragchecker")) as labeler:
        labeling = await labeler.label(PRIVATE)
    assert len(server.prompts) == 3
    sent = json.dumps([prompt.body for prompt in server.prompts])
    assert "example.com" not in sent
    assert "1234567" not in sent
    assert "[email]" in sent
    assert "[phone]" in sent
    labels = next(label for label in labeling.labels if isinstance(label, SentenceLabels))
    assert labels.document_keys == cut(PRIVATE).document_keys
    assert labels.response_keys == cut(PRIVATE).response_keys
    assert labeling.splitter == SPLITTER_ID
    assert "trace.adherence" in labeling.scores


async def test_sentences_that_share_a_redacted_place_are_cut_again(server: ScriptedJudge) -> None:
    one = RagInteraction(**TOWER.model_dump() | {"documents": ["Write to bob (at)\nExample.com today."]})
    assert len(cut(one).documents[0]) == 2
    async with judge(server, redact=("email",)) as labeler:
        labeling = await labeler.label(one)
    assert "xample.com" not in json.dumps(server.prompts[0].body)
    (labels,) = labeling.labels
    assert isinstance(labels, SentenceLabels)
    assert labels.document_keys == ("0a",)


async def test_without_redaction_the_judge_reads_the_texts_and_keeps_its_version(server: ScriptedJudge) -> None:
    async with judge(server) as plain, judge(server, redact=("email",)) as redacting:
        await plain.label(PRIVATE)
        assert "bob@example.com" in json.dumps(server.prompts[0].body)
        assert redacting.version == f"{plain.version}/redact.email"


OWN = """
import time

def hangs(text):
    time.sleep(60)

def fails(text):
    raise ValueError(text)

def masks(text):
    return text.replace("1889", "[year]")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module with functions that redact."""
    (tmp_path / "own_prompt_redaction.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_prompt_redaction"


@pytest.mark.parametrize("name", ["hangs", "fails"])
async def test_an_interaction_that_cannot_be_redacted_is_not_sent(name: str, own: str, server: ScriptedJudge) -> None:
    async with judge(server, redact_function=f"{own}:{name}", redact_limit_s=0.2) as labeler:
        labeling: Any = await labeler.label(PRIVATE)
    assert server.prompts == []
    assert labeling.scores == {}
    assert set(labeling.absent.values()) == {"not_redacted"}


async def test_a_function_of_the_user_redacts_prompts(own: str, server: ScriptedJudge) -> None:
    async with judge(server, redact_function=f"{own}:masks") as labeler:
        await labeler.label(PRIVATE)
    sent = json.dumps(server.prompts[0].body)
    assert ("1889" in sent, "[year]" in sent) == (False, True)
