# ruff: noqa: E501, PLR0911, PLR0912 - a generator is a list of cases
"""Answers of judges, built from known labels and then spoilt as models and endpoints spoil them."""

import json
import random
from collections.abc import Callable
from typing import Any

from ragtide_consumers.labelers.judge.claims import read_claims, read_verdicts
from ragtide_consumers.labelers.judge.completions import read_reply
from ragtide_consumers.labelers.judge.prompts import Prompt, claims_prompt, trace_prompt, verdicts_prompt
from ragtide_consumers.labelers.judge.repairing import AnswerReading, ReadOnce
from ragtide_consumers.labelers.judge.trace import read_trace
from ragtide_consumers.labelers.remote.usage import Usage
from ragtide_consumers.text.keys import document_keys, response_keys
from ragtide_runtime.settings.labelers import PromptVariant

Fields = dict[str, Any]

WORDS = (
    "the tower", "was built in 1889", "it's made of iron", "said \"yes\" to it", "costs $3 {net}", "C:\\temp\\new",
    "see [1] and [2]", "a <think> tag", "50% of it", "塔建于1889年", "بني البرج", "башня", "line one\nline two", "{a, b}",
    "// no comment", "# nor this", "ends here.", "“quoted”", "O'Brien", "x: y, z; w", "```", "null", "True", "😀",
)  # fmt: skip
PLAIN = tuple(word for word in WORDS if not set(word) & set("\"'“”\\\n{}[]<>`#/:;,"))
BLOCKS = (
    ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>"), ("[THINK]", "[/THINK]"),
    ("<thought>", "</thought>"), ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("◁think▷", "◁/think▷"), ("<|begin_of_thought|>", "<|end_of_thought|>"), ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"), ("<scratchpad>", "</scratchpad>"), ("<Think>\n", "\n</Think>\n"),
    ('<details type="reasoning" done="true">', "</details>"), ("", "</think>"), ("analysisWe see ", "assistantfinal"),
    ("<|channel>thought\n", "<channel|>"),
)  # fmt: skip
BEFORE = (
    "", "Here is the result:\n", "Sure! The set {0a, 0b} is relevant.\n", "以下是结果：\n", "إليك النتيجة:\n", "Вот ответ: ",
    'The form is {"claim": ...}. ', "I looked at [0a] and [0b].\n\n", "**Answer**\n",
)  # fmt: skip
AFTER = (
    "", "\nNote: {a, b} are partly supported.", "\n如有疑问请告知。", "\n\nLet me know if you need more {detail}!", "\n</answer>",
    "<|return|>", "<|im_end|>", "\n```\nThe key {0a: yes} is the main one.", " ...",
)  # fmt: skip
REFUSALS = (
    "I'm sorry, but I can't assist with that request.", "I cannot help with this.", "Sorry, I am unable to comply.",
    "As an AI language model, I cannot judge this content.", "Извините, но я не могу помочь с этим.", "对不起，我无法提供帮助。",
    "Lo siento, pero no puedo ayudar con eso.", "Je suis désolé, mais je ne peux pas répondre.",
    "Es tut mir leid, aber ich kann dabei nicht helfen.", "申し訳ありませんが、お答えできません。", "عذرًا، لا أستطيع المساعدة في ذلك.",
    "죄송하지만 도와드릴 수 없습니다.", "Desculpe, mas não posso ajudar com isso.", "I won’t be able to help. I must decline to provide this.",
)  # fmt: skip


class Case:
    """A prompt, the fields of its right answer, those of a draft, and the reader of answers."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        kind = draw.choice(("trace", "trace", "claims", "verdicts"))
        variants: tuple[PromptVariant, ...] = ("full", "short")
        variant = draw.choice(variants)
        documents = document_keys([draw.randint(1, 4) for _ in range(draw.randint(1, 3))])
        response = response_keys(draw.randint(1, 4))
        self.fields: Fields
        self.reader: Callable[[Fields, Usage], AnswerReading[Any]]
        if kind == "trace":
            self.prompt: Prompt = trace_prompt(
                "q", [(key, "d") for key in documents], [(key, "r") for key in response], "en", variant=variant
            )
            self.fields = self._trace(documents, response, full=variant == "full")
            self.draft = self._trace(documents, response, full=variant == "full")
            self.reader = lambda fields, usage: read_trace(fields, documents, response, usage)
        elif kind == "claims":
            self.prompt = claims_prompt("q", "r", "a", "en", variant=variant)
            self.fields, self.draft = self._claims(), self._claims()
            self.reader = lambda fields, usage: read_claims(fields, usage, has_reference=True)
        else:
            sources = [f"D{n}" for n in range(draw.randint(1, 4))]
            claims = [f"r{n + 1}" for n in range(draw.randint(1, 4))]
            self.prompt = verdicts_prompt(
                [(key, "s") for key in sources], [(key, "c") for key in claims], "en", variant=variant
            )
            self.fields, self.draft = self._verdicts(sources, claims), self._verdicts(sources, claims)
            known = [key.lower() for key in sources]
            self.reader = lambda fields, usage: read_verdicts(fields, claims, known, usage)

    def _some(self, keys: Any) -> list[str]:
        return [key for key in keys if self.draw.random() < 0.5]

    def _text(self, words: tuple[str, ...] = WORDS) -> str:
        return " ".join(self.draw.choice(words) for _ in range(self.draw.randint(1, 5)))

    def _trace(self, documents: Any, response: Any, *, full: bool) -> Fields:
        entries = []
        for key in response:
            support = self._some(documents)
            entry = {"response_sentence_key": key, "explanation": self._text(), "supporting_sentence_keys": support}
            if not full:
                del entry["explanation"]
            entries.append({**entry, "fully_supported": bool(support) and self.draw.random() < 0.5})
        found: Fields = {"relevance_explanation": self._text(), "all_relevant_sentence_keys": self._some(documents)}
        found |= {
            "overall_supported_explanation": self._text(),
            "overall_supported": all(entry["fully_supported"] for entry in entries),
            "sentence_support_information": entries,
            "all_utilized_sentence_keys": self._some(documents),
        }
        if not full:
            for name in ("relevance_explanation", "overall_supported_explanation", "overall_supported"):
                del found[name]
        return found

    def _claims(self) -> Fields:
        lists = [[self._text(PLAIN) + f" {n}." for n in range(self.draw.randint(0, 3))] for _ in range(2)]
        return {"response_claims": lists[0], "reference_claims": lists[1]}

    def _verdicts(self, sources: list[str], claims: list[str]) -> Fields:
        entries = []
        for claim in claims:
            entailed = self._some(sources)
            contradicted = [key for key in self._some(sources) if key not in entailed]
            entries.append({"claim": claim, "entailed_by": entailed, "contradicted_by": contradicted})
        return {"verdicts": entries}

    def labels(self, fields: Fields) -> Any:
        """Return the labels of fields."""
        return self.reader(fields, Usage()).labels

    def read(self, reply: object) -> tuple[Any, bool, str | None]:
        """Return the labels in a reply, whether the judge need not be asked again, and the refusal."""
        answer = read_reply(reply, None)
        once = ReadOnce(self.prompt, self.reader)
        refusal = once.refusal(answer)
        if refusal is not None:
            return None, True, refusal
        reading, _ = once.at(answer)
        return reading.labels, not reading.complaints, None


def respelt(value: Any, draw: random.Random) -> Any:
    """Return a value whose names of fields are spelt in another way."""
    style = draw.choice((
        lambda name: name.split("_")[0] + "".join(part.title() for part in name.split("_")[1:]),
        lambda name: name.replace("_", " "),
        lambda name: name.replace("_", "-"),
        str.upper,
        str.title,
        lambda name: name.replace("_", " ").capitalize(),
    ))  # fmt: skip

    def walk(one: Any) -> Any:
        if isinstance(one, dict):
            return {style(name): walk(inner) for name, inner in one.items()}
        return [walk(inner) for inner in one] if isinstance(one, list) else one

    return walk(value)


def reworded(value: Any, draw: random.Random) -> Any:
    """Return a value whose truth values are words or numbers."""
    yes, no = draw.choice(
        (("yes", "no"), ("True", "False"), (1, 0), ("YES", "No."), ("true", "partially"), ("да", "нет"), ("是", "否"))
    )

    def walk(one: Any) -> Any:
        if isinstance(one, dict):
            return {name: walk(inner) for name, inner in one.items()}
        if isinstance(one, bool):
            return yes if one else no
        return [walk(inner) for inner in one] if isinstance(one, list) else one

    return walk(value)


KEY_FIELDS = (
    "all_relevant_sentence_keys", "all_utilized_sentence_keys", "supporting_sentence_keys", "entailed_by",
    "contradicted_by",
)  # fmt: skip


def worded(value: Any, draw: random.Random) -> Any:
    """Return a value whose keys and truth values have words around them, as models write them."""
    yes = draw.choice(
        ("Yes, fully supported", "true (see the sentences)", "Verdict: yes", "Fully supported.", "Ｙｅｓ")
    )
    no = draw.choice(
        ("No, it does not say so", "not supported", "no - nothing supports it", "False.", "Partially supported")
    )

    def walk(one: Any, name: str = "") -> Any:
        if isinstance(one, dict):
            return {name: walk(inner, name) for name, inner in one.items()}
        if name in KEY_FIELDS:
            return keys_with_words(one, draw)
        if name in ("response_sentence_key", "claim") and draw.random() < 0.5:
            return draw.choice(("[{}]", "{}.", "Sentence {}", "{}: The text of it.", "`{}`")).format(one.upper())
        if isinstance(one, bool):
            return yes if one else no
        return [walk(inner) for inner in one] if isinstance(one, list) else one

    return walk(value)


def keys_with_words(keys: list[str], draw: random.Random) -> Any:
    """Return keys as texts with words, with ranges where neighbours of one text are there, or as one text."""
    if not keys:
        return draw.choice((["none"], "none", "N/A", "None.", []))
    texts = list(keys)
    for at in range(len(keys) - 2, -1, -1):
        first, second = keys[at], keys[at + 1]
        neighbours = first[:-1] == second[:-1] and ord(second[-1]) - ord(first[-1]) == 1
        if neighbours and at + 1 < len(texts) and texts[at + 1] == second and draw.random() < 0.4:
            texts[at : at + 2] = [
                draw.choice(("{}-{}", "{} to {}", "{}–{}", "[{}] – [{}]", "{}...{}")).format(first, second)
            ]
    around = draw.choice(("{}", "[{}]", '"{}."', "sentence {}", "**{}**", "({})"))
    texts = [around.format(text) if "[" not in text else text for text in texts]
    if draw.random() < 0.2:
        texts = [text.translate({ord(digit): ord(digit) + 0xFEE0 for digit in "0123456789"}) for text in texts]
    joined = draw.choice((", ", "; ", " and ", "\n", " / "))
    return joined.join(texts) if draw.random() < 0.4 else texts


def corrected(case: Case, draw: random.Random) -> str:
    """Return a text whose draft is corrected field by field, or entry by entry, until it says what is right."""
    said = dict(case.draft)
    texts = [json.dumps(said, ensure_ascii=False)]
    names = list(case.fields)
    draw.shuffle(names)
    for name in names:
        right, entries = case.fields[name], name in ("sentence_support_information", "verdicts")
        if entries and draw.random() < 0.7:
            texts += [json.dumps(entry, ensure_ascii=False) for entry in right]
        elif isinstance(right, list) and right and not isinstance(right[0], dict) and draw.random() < 0.3:
            texts.append(f"{name}: {json.dumps(right, ensure_ascii=False)}")
        else:
            texts.append(json.dumps({name: right}, ensure_ascii=False))
    return draw.choice(("\nCorrected: ", "\n\nWait, no: ", "\n", "\n```json\n")).join(texts)


def wrapped(value: Any, draw: random.Random) -> Any:
    """Return a value in a wrapper, or two."""
    for _ in range(draw.randint(1, 2)):
        value = draw.choice((
            lambda one: {"result": one},
            lambda one: [one],
            lambda one: {"name": "give_labels", "arguments": one},
            lambda one: {"answer": json.dumps(one)},
            lambda one: {"status": "ok", "output": {"json": one}, "notes": ["none", 3]},
        ))(value)  # fmt: skip
    return value


def written(value: Any, draw: random.Random) -> str:
    """Return a value as JSON, or as models write it."""
    style = draw.randrange(9)
    text = json.dumps(value, ensure_ascii=draw.random() < 0.3, indent=draw.choice((None, 1, 4)))
    if style == 0:
        return repr(value)
    if style == 1:
        return text.replace("\n}", ",\n}").replace("]", " ,]").replace("[ ,]", "[]") if not _has(value, "]") else text
    if style == 2:  # raw line breaks
        return text.replace("\\n", "\n")
    if style == 3:  # escapes that JSON does not know
        return text.replace("'", "\\'").replace("_", "\\_") if not _has(value, "\\") else text
    if style == 4:
        return text.replace("{", "{ // the labels\n", 1)
    if style == 5:
        return text.replace(", ", ", /* next */ ", 1) if not _has(value, ", ") else text
    if style == 6 and not _has(value, '"“”\\'):
        parts = text.split('"')
        return "".join(part + ("“" if n % 2 == 0 else "”") * (n < len(parts) - 1) for n, part in enumerate(parts))
    if style == 7:
        return json.dumps(text)
    return text


def _has(value: Any, signs: str) -> bool:
    if isinstance(value, dict):
        return any(_has(one, signs) or _has(name, signs) for name, one in value.items())
    if isinstance(value, list):
        return any(_has(one, signs) for one in value)
    return isinstance(value, str) and any(sign in value for sign in signs)


def unescaped_quotes(value: Any) -> str:
    """Return the JSON of a value whose explanations hold quotes without escapes."""
    return json.dumps(value, ensure_ascii=False).replace('said \\"yes\\" to it', 'said "yes" to it')


def message(text: str, draw: random.Random) -> Fields:
    """Return a message with a text somewhere in it."""
    place = draw.randrange(10)
    if place == 0:
        return {"content": [{"type": "text", "text": text}]}
    if place == 1:
        half = len(text) // 2
        return {"content": [{"type": "text", "text": text[:half]}, {"type": "text", "text": text[half:]}]}
    if place == 2:
        thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm {x}."}]}
        return {"content": [thought, {"type": "text", "text": text}]}
    if place == 3:
        return {"content": None, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": text}}]}
    if place == 4:
        return {"content": "", "function_call": {"name": "f", "arguments": text}}
    if place == 5:
        return {"content": text, "reasoning_content": "I think {all} of it.", "refusal": None}
    if place == 6:
        return {"content": "", "refusal": text}
    return {"content": text}


def check(seed: int) -> None:
    """Check that an answer is read as the labels from which it was built, or not at all where it must not be."""
    draw = random.Random(seed)
    case = Case(draw)
    truth = case.labels(case.fields)
    value = case.fields
    if draw.random() < 0.3:
        value = respelt(value, draw)
    if draw.random() < 0.3:
        value = reworded(value, draw)
    elif draw.random() < 0.3 and "response_claims" not in value:
        value = worded(value, draw)
    bare = value
    if draw.random() < 0.25:
        value = wrapped(value, draw)
    text = written(value, draw)
    draft = json.dumps(case.draft, ensure_ascii=False)
    shape = draw.randrange(16)
    finish = "stop"

    def reply(content: Fields) -> Fields:
        return {"choices": [{"message": {"role": "assistant", **content}, "finish_reason": finish}]}

    if shape == 0:  # cut off
        finish = draw.choice(("length", "stop", "max_tokens"))
        whole = json.dumps(bare, ensure_ascii=False)
        labels, _, refusal = case.read(reply({"content": whole[: draw.randint(0, len(whole) - 1)]}))
        assert refusal is None
        _never_wrong(labels, truth)
        return
    if shape == 1:  # only a draft, in a block without an end or in the field of the reasoning, before other words
        hidden: Fields = draw.choice((
            {"content": f"<think>Perhaps {draft} or not"},
            {"content": f"{draft}\n</think>\nI do not know."},
            {"content": "", "reasoning_content": f"{draft} No, that is wrong."},
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": draft + " no"}]}]},
            {"content": f'{{"thinking": {draft}}}'},
            {"content": f"analysisWe have {draft} but"},
        ))  # fmt: skip
        assert case.read(reply(hidden))[0] is None
        return
    if shape == 2:  # two answers, and nothing says which counts
        if case.labels(case.draft) != truth:
            assert case.read(reply({"content": json.dumps([case.draft, bare])}))[0] is None
        return
    if shape == 3:
        words = draw.choice(REFUSALS)
        labels, _, refusal = case.read(reply(message(words, draw) if draw.random() < 0.7 else {"content": words}))
        assert labels is None
        assert refusal is not None, words
        return
    if shape == 4:  # the whole answer was taken for reasoning
        labels, good, _ = case.read(
            reply({"content": draw.choice(("", None)), "reasoning_content": f"Hm. {json.dumps(bare)}\n"})
        )
    elif shape == 5:
        labels, good, _ = case.read(reply({"content": None, "parsed": bare}))
    elif shape == 6:
        labels, good, _ = case.read(reply({"content": unescaped_quotes(bare)}))
    elif shape in (7, 8):
        opens, closes = draw.choice(BLOCKS)
        thought = draw.choice((draft, f"Perhaps {draft}, or {{not}}", 'The form is {"verdicts": [...]} {', "Hm."))
        labels, good, _ = case.read(reply(message(f"{opens}{thought}{closes}{text}", draw)))
    elif shape == 9:
        labels, good, _ = case.read(reply(message(f"{draft}\nNo, this is right:\n{text}", draw)))
    elif shape == 11:
        labels, good, _ = case.read(reply(message(corrected(case, draw), draw)))
    elif shape == 12:  # and a last word that was cut
        more = json.dumps({next(iter(case.fields)): "x"} | case.draft, ensure_ascii=False)
        labels, _, _ = case.read(reply({"content": f"{text}\nCorrected: {more[: draw.randint(30, len(more) - 1)]}"}))
        _never_wrong(labels, case.labels(case.draft)) if labels != truth else None
        return
    elif shape == 10:
        labels, good, _ = case.read(reply(message(f"{text}\n\n{text}", draw)))
    else:
        fence = draw.choice(("", "```json\n", "```\n", "~~~\n"))
        body = f"{draw.choice(BEFORE)}{fence}{text}{fence and chr(10) + fence[:3]}{draw.choice(AFTER)}"
        labels, good, _ = case.read(reply(message(body, draw)))
    assert labels == truth, (text, labels, truth)
    assert good


def _never_wrong(labels: Any, truth: Any) -> None:
    """Check that labels of a cut answer are the true ones as far as they are there."""
    if labels is None:
        return
    if isinstance(labels, dict) or not hasattr(labels, "support"):
        assert labels == truth
        return
    assert labels.relevant in (None, truth.relevant)
    assert labels.utilized in (None, truth.utilized)
    assert all(truth.support[key] == support for key, support in labels.support.items())
    assert all(truth.fully_supported[key] is verdict for key, verdict in labels.fully_supported.items())
