"""Small real models and tokenizers, whose outputs a reader can compute by hand.

A word of the second text is covered if the first text has it. The log-odds of a pair model are SCALE times (the covered
share of the second text's tokens - 1/2). Those of a token model are SCALE / 2 if the token is not
covered, else -SCALE / 2.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

SCALE = 8.0

TEXT = (
    "the tower was built in 1889 of iron paris is tall it has lifts who when where stone year and a b c d e f g h i j "
    ". ? , ! : question documents answer"
)

WORDS = TEXT.split()

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def tokenizer(words: Iterable[str] = WORDS) -> Tokenizer:
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *dict.fromkeys(words)])}
    made = Tokenizer(WordLevel(vocabulary, "[UNK]"))
    made.normalizer = Lowercase()
    made.add_special_tokens(list(SPECIAL))
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    return made


def graph(head: str, labels: int = 2, nodes: Sequence[onnx.NodeProto] = ()) -> onnx.ModelProto:
    """Return a model.

    Args:
        head: `pair` labels inputs, `token` labels tokens.
        labels: 1 gives the log-odds; of several the first is 0, the second the log-odds, the others -50.
        nodes: more nodes, which nothing uses.
    """

    def node(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, list(inputs), [output], **attributes)

    def number(name: str, value: float) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(value, dtype=np.float32), name)

    def axes(name: str, *values: int) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(values, dtype=np.int64), name)

    # The last token of a pair is the separator of the second text; the first text's separator covers it.
    made = [
        node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT),
        node("Cast", ["token_type_ids"], "second_or_pad", to=TensorProto.FLOAT),
        node("Mul", ["mask", "second_or_pad"], "second"),
        node("Sub", ["mask", "second"], "first"),
        node("Unsqueeze", ["input_ids", "axis_two"], "down"),
        node("Unsqueeze", ["input_ids", "axis_one"], "across"),
        node("Equal", ["down", "across"], "same"),
        node("Cast", ["same"], "same_number", to=TensorProto.FLOAT),
        node("Unsqueeze", ["first", "axis_two"], "first_down"),
        node("Mul", ["same_number", "first_down"], "shared"),
        node("ReduceMax", ["shared"], "covered", axes=[1], keepdims=0),
    ]
    if head == "pair":
        made += [
            node("Mul", ["covered", "second"], "covered_second"),
            node("ReduceSum", ["covered_second", "axis_one"], "n_covered", keepdims=1),
            node("ReduceSum", ["second", "axis_one"], "n_second", keepdims=1),
            node("Div", ["n_covered", "n_second"], "share"),
            node("Sub", ["share", "half"], "centred"),
        ]
    else:
        made += [
            node("Sub", ["half", "covered"], "uncovered"),
            node("Unsqueeze", ["uncovered", "axis_two"], "centred"),
        ]
    made += [node("Mul", ["centred", "scale"], "odds"), node("Sub", ["odds", "odds"], "zero")]
    made += [node("Sub", ["zero", "fifty"], "never")]
    parts = {1: ["odds"], 2: ["zero", "odds"]}.get(labels, ["zero", "odds", *["never"] * (labels - 2)])
    made.append(node("Concat", parts, "logits", axis=-1))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    shape: list[str | int] = ["batch", "length", labels] if head == "token" else ["batch", labels]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
    constants = [
        axes("axis_one", 1),
        axes("axis_two", 2),
        number("half", 0.5),
        number("scale", SCALE),
        number("fifty", 50.0),
    ]
    body = helper.make_graph([*made, *nodes], "small", inputs, [output], constants)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(one.domain, 1) for one in nodes if one.domain)]
    return helper.make_model(body, opset_imports=opsets, ir_version=8)


def write(
    folder: Path,
    head: str = "pair",
    *,
    labels: Sequence[str] = ("unsupported", "supported"),
    config: dict[str, Any] | None = None,
    calibration: dict[str, Any] | None = None,
    words: Iterable[str] = WORDS,
) -> Path:
    """Write a model's folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(graph(head, len(labels)), str(folder / "model.onnx"))
    tokenizer(words).save(str(folder / "tokenizer.json"))
    kind = "Token" if head == "token" else "Sequence"
    usual = {
        "architectures": [f"SmallFor{kind}Classification"],
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "max_position_embeddings": 512,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps({**usual, **(config or {})}))
    if calibration is not None:
        (folder / "calibration.json").write_text(json.dumps(calibration))
    return folder
