"""The pages about other tools deny no feature that ragtide has: each denial is compared with what ragtide has."""

import re
from typing import Final, NamedTuple

import pytest
from tests.docs.test_comparison import EXISTING, found
from tests.support.cases import for_each
from tests.support.doc_pages import page_text
from tools.pages.commands import COMMAND_PAGES

from ragtide_schemas.criterion import built_in_criteria

pytestmark = pytest.mark.pure

COMMANDS: Final = "\n".join(page() for page in COMMAND_PAGES.values())
OPTIONS: Final = sorted(set(re.findall(r"`(--[a-z-]+)", COMMANDS)))
PARTS: Final = sorted(set(re.findall(r"ragtide ([a-z-]+ [a-z-]+)", COMMANDS)))
REGISTRY: Final[dict[str, list[str]]] = {
    **EXISTING, "criterion": [criterion.name for criterion in built_in_criteria()], "option": OPTIONS,
    "part of a command": PARTS,
}  # fmt: skip
"""What ragtide has, by kind of name."""

BETTER: Final = r"^- \*\*(?:Better there|Keep there):\*\*(.*?)(?=\n- |\n\n|\Z)"
"""What is better at another tool, or stays there; rows of tables that say "none" deny a feature, too."""


class Topic(NamedTuple):
    """A feature that such a sentence may name."""

    words: str
    """Pattern of the words for it in a sentence."""
    names: str
    """Pattern of the names that it would have in ragtide, over all kinds of names."""
    but: str = ""
    """How the sentence limits what is missing, if ragtide has a part of the feature; empty if it has none."""


TOPICS: Final = (
    Topic(r"relevanc[ey] of (?:the )?answers?|answer relevanc", r"^answer\.relevance$", "never denied"),
    Topic(r"criteri|rubric|G-?Eval|own question", r"^judge\.criteria$", "steps of evaluation and weights"),
    Topic(r"reasons? in words|explain", r"^judge\.reasons$", "never denied"),
    Topic(r"conversation|session", r"^clusters\.by$", "annotations on spans and sessions|conversations of your own"),
    Topic(r"\bstop\b|\bresume\b|\bclone\b", r"^experiment (?:stop|resume|clone)$", "never denied"),
    Topic(r"leaderboard", r"^experiments$", "of application versions"),
    Topic(r"\balerts?\b", r"^alerts$", "errors in traces and about changed prompts"),
    Topic(r"data ?sets?", r"^dataset$", "versioned data sets|in one place"),
    Topic(r"annotation", r"^annotate$|^label$", "assigned users|configurations of your own|annotations on spans"),
    Topic(r"latency|tokens|\bcost\b", r"^answer\.(?:latency_s|cost_usd)$", "of every step|of scores, cost or latency"),
    Topic(r"benchmark", r"^trust$", "public benchmarks|comes with a benchmark|its benchmark"),
    Topic(r"\bpytest\b|unit tests?|tests of single", r"^--fail-if$", "single answers"),
    Topic(r"judges?\b", r"^judge\.model$", "on a web page|measured on|judges and code|built-in prompts"),
    Topic(r"sampling rate", r"^cascade\.", "never denied"),
    Topic(r"shards?", r"^--shard$", "never denied"),
    Topic(r"knowledge graph|test sets?|test cases|questions of one", r"^(?:testset|synthe|generate)"),
    Topic(r"\bagents?\b|tool use|trajector|\bMCP\b|assistant", r"^(?:agent|tool)s?\.", "expected calls|assistant that"),
    Topic(r"\bSQL\b", r"^sql\."),
    Topic(r"\bimages?\b", r"^(?:image|vision)\."),
    Topic(r"BLEU|ROUGE", r"(?i)^(?:bleu|rouge)"),
    Topic(r"cloud service|hosted", r"^cloud|^hosted"),
    Topic(r"traces?\b|spans", r"\btraces?$|^spans?$", "traces"),
    Topic(r"prompts?\b|playground", r"(?:^|\.)(?:prompts|playground)$"),
    Topic(r"\bteams?\b|accounts|assigned", r"(?:^|\.)(?:teams?|oidc|saml|sso|assign\w*)(?:\.|$)"),
    Topic(r"dashboards?", r"^dashboards?$"),
    Topic(r"code evaluators", r"^code_evaluators?$"),
    Topic(r"GPUs?|fine-tuning|post-training|models o[fn] your own|hosted models", r"^(?:torch|trl|peft)$"),
    Topic(r"RFRandomSearch|Optuna|at random", r"^(?:optuna|random_search|--random)$|grid\.random"),
    Topic(r"reference\b|authors' prompts|reports", r"^authors$"),
)  # fmt: skip


def denials() -> list[str]:
    """Return the sentences of both pages that deny a feature, without links and line breaks."""
    texts = [page_text(page) for page in ("coming-from", "comparison")]
    cells = [cell for text in texts for cell in re.findall(BETTER, text, re.MULTILINE | re.DOTALL)]
    plain = [" ".join(re.sub(r"\]\([^)]*\)|[\[`]", "", cell).split()) for cell in cells]
    return [sentence for cell in plain for sentence in re.split(r"(?<=\.) (?=[A-Z])", cell) if sentence]


def rows_that_deny() -> list[str]:
    """Return the rows of the tables whose second cell denies what the first one names."""
    text = page_text("coming-from")
    return [" ".join(cells) for cells in re.findall(r"^\| ([^|]+) \| ((?:none|no|not)\b[^|]*) \|", text, re.MULTILINE)]


SENTENCES: Final = [*denials(), *rows_that_deny()]


def has(topic: Topic) -> list[str]:
    """Return the names in ragtide of a topic's feature."""
    return [name for names in REGISTRY.values() for name in names if re.search(topic.names, name)]


def mistakes(sentence: str) -> list[str]:
    """Return the features that a sentence denies although ragtide has them."""
    return [
        f"{topic.words}: ragtide has {', '.join(has(topic))}"
        for topic in TOPICS
        if re.search(topic.words, sentence, re.IGNORECASE) and has(topic)
        if not topic.but or not re.search(topic.but, sentence, re.IGNORECASE)
    ]


@for_each("sentence", SENTENCES)
def test_no_sentence_denies_a_feature_that_exists(sentence: str) -> None:
    assert mistakes(sentence) == []


@for_each("sentence", SENTENCES)
def test_every_denial_is_about_a_feature_that_this_test_knows(sentence: str) -> None:
    assert any(re.search(topic.words, sentence, re.IGNORECASE) for topic in TOPICS), "add its feature to TOPICS"


def test_the_pages_have_such_sentences() -> None:
    assert len(SENTENCES) > 15
    assert found("metric", r"^trace\.adherence$")


@for_each("topic", [topic for topic in TOPICS if topic.but])
def test_a_feature_that_ragtide_has_in_part_is_found(topic: Topic) -> None:
    assert has(topic), "ragtide has no such name: correct the pattern, or leave out its limit"


FORMER: Final = (
    "Answer Relevancy none without a right answer",
    "AnswerRelevancyMetric, GEval none; a labeler of your own can ask your question",
    "a reason in words for each score, a generator of test cases",
    "It has many more metrics: agents and tool use, SQL, rubrics.",
    "tests of single answers, agents and conversations.",
)
"""Sentences of the pages that were not true when their features existed."""


@for_each("sentence", FORMER)
def test_a_sentence_that_was_not_true_is_found(sentence: str) -> None:
    assert mistakes(sentence)
