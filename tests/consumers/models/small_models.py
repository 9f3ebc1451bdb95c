"""Small real models and tokenizers, whose outputs a reader can compute by hand.

A word of the second text is covered if the first text has it. The log-odds of a pair model are SCALE times (the covered
share of the second text's tokens - 1/2). Those of a token model are SCALE / 2 if the token is not
covered, else -SCALE / 2. A sentence encoder gives each token the row of its word in a matrix; the default matrix is the
identity, so the mean of a sentence counts its words.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
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


def encoder(rows: npt.NDArray[np.float32], output: str = "last_hidden_state") -> onnx.ModelProto:
    """Return a sentence encoder.

    Args:
        rows: numbers of each word, of shape (words, width). They go through a layer that changes nothing.
        output: `last_hidden_state` has numbers for tokens, `sentence_embedding` their sum, which has the direction of
            the mean; `pooler_output` alone has the numbers of the first token.
    """
    made = [
        helper.make_node("Gather", ["rows", "input_ids"], ["words"]),
        helper.make_node("MatMul", ["words", "layer"], ["tokens"], name="layer"),
    ]
    shape: list[str | int] = ["batch", "length", rows.shape[1]]
    constants = [
        numpy_helper.from_array(rows, "rows"),
        numpy_helper.from_array(np.eye(rows.shape[1], dtype=np.float32), "layer"),
    ]
    if output == "last_hidden_state":
        made.append(helper.make_node("Identity", ["tokens"], [output]))
    else:
        shape.remove("length")
        made += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "axis_two"], ["wide_mask"]),
            helper.make_node("Mul", ["tokens", "wide_mask"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "axis_one"], [output], keepdims=0),
        ]
        constants += [
            numpy_helper.from_array(np.array([number], dtype=np.int64), name)
            for name, number in (("axis_one", 1), ("axis_two", 2))
        ]
    names = ["input_ids"] if output == "last_hidden_state" else ["input_ids", "attention_mask"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names]
    body = helper.make_graph(
        made, "encoder", inputs, [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)], constants
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_encoder(
    folder: Path,
    *,
    rows: npt.NDArray[np.float32] | None = None,
    output: str = "last_hidden_state",
    words: Iterable[str] = WORDS,
    **files: Any,
) -> Path:
    """Write the folder of a sentence encoder, and return it.

    Args:
        folder: to write.
        rows: numbers of each word; None for the identity.
        output: as of `encoder`.
        words: of the vocabulary.
        files: content of more JSON files: `pooling`, `modules` or `sentences`.
    """
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    vocabulary = tokenizer(words)
    vocabulary.save(str(folder / "tokenizer.json"))
    if rows is None:
        rows = np.eye(vocabulary.get_vocab_size(), dtype=np.float32)
    onnx.save(encoder(rows, output), str(folder / "model.onnx"))
    config = {"architectures": ["SmallModel"], "max_position_embeddings": 512, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    names = {"pooling": "1_Pooling/config.json", "modules": "modules.json", "sentences": "sentence_bert_config.json"}
    for kind, content in files.items():
        (folder / names[kind]).write_text(json.dumps(content))
    return folder
