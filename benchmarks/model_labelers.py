"""Speed and memory of the labeler `model`: common batches beside one interaction at a time; 20,000 in one process.

    python benchmarks/model_labelers.py [--items 200] [--rounds 3] [--long 20000]

The models are encoders of random weights with real attention, written here. Their verdicts mean nothing, and their
work is that of a trained model of the same shape. Texts are the demo's. All ways take turns in each round, because
other work on the machine then slows all of them; the ratio is the measure.
"""

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import onnx
import psutil
import structlog
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from ragtide import RagInteraction
from ragtide_consumers.labelers.models.labeler import ModelLabeler
from ragtide_consumers.labelers.models.loading import load_models
from ragtide_consumers.labelers.models.pair_classifier import PairClassifier
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.settings.model import Settings

SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")

WORDS: Final = 8000


def vocabulary(texts: Sequence[str]) -> list[str]:
    words = {word.lower() for text in texts for word, _ in Whitespace().pre_tokenize_str(text)}
    return sorted(words)[:WORDS]


def write_tokenizer(folder: Path, words: Sequence[str]) -> int:
    """Write a tokenizer of whole words, and return the size of its vocabulary."""
    numbers = {word: number for number, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(WordLevel(numbers, "[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, numbers[name]) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return len(numbers)


class Encoder:
    """Builds a graph: embedding, layers of attention and feed-forward, and a head on the first token."""

    def __init__(self, n_words: int, layers: int, width: int, heads: int) -> None:
        self._random = np.random.default_rng(1)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._width, self._heads = width, heads
        words = self._constant("words", self._random.normal(0, 1, (n_words, width)))
        self._node("Gather", [words, "input_ids"], "x0")
        self._node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
        self._node("Sub", ["mask", self._constant("one", 1.0)], "missing")
        self._node("Mul", ["missing", self._constant("large", 10_000.0)], "penalty")
        self._node("Unsqueeze", ["penalty", self._numbers("axes12", 1, 2)], "bias")
        for layer in range(layers):
            self._layer(layer)
        self._node("Gather", [f"x{layers}", self._numbers("first")], "start", axis=1)
        self._node("MatMul", ["start", self._weights("head", width, 2)], "logits")

    def _constant(self, name: str, value: Any) -> str:
        self._constants.append(numpy_helper.from_array(np.array(value, dtype=np.float32), name))
        return name

    def _numbers(self, name: str, *values: int) -> str:
        array = np.array(values, dtype=np.int64) if values else np.array(0, dtype=np.int64)
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def _weights(self, name: str, rows: int, columns: int) -> str:
        return self._constant(name, self._random.normal(0, rows**-0.5, (rows, columns)))

    def _node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def _layer(self, n: int) -> None:
        width, each = self._width, self._width // self._heads
        shape = self._numbers(f"shape{n}", 0, 0, self._heads, each)
        split = {}
        for name, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
            flat = self._node("MatMul", [f"x{n}", self._weights(f"w{name}{n}", width, width)], f"{name}{n}")
            parts = self._node("Reshape", [flat, shape], f"{name}p{n}")
            split[name] = self._node("Transpose", [parts], f"{name}t{n}", perm=order)
        raw = self._node("MatMul", [split["q"], split["k"]], f"raw{n}")
        scaled = self._node("Mul", [raw, self._constant(f"scale{n}", each**-0.5)], f"scaled{n}")
        masked = self._node("Add", [scaled, "bias"], f"masked{n}")
        shares = self._node("Softmax", [masked], f"shares{n}", axis=-1)
        mixed = self._node("MatMul", [shares, split["v"]], f"mixed{n}")
        back = self._node("Transpose", [mixed], f"back{n}", perm=(0, 2, 1, 3))
        joined = self._node("Reshape", [back, self._numbers(f"join{n}", 0, 0, width)], f"joined{n}")
        attended = self._node("Add", [f"x{n}", joined], f"attended{n}")
        inner = self._node("MatMul", [attended, self._weights(f"up{n}", width, 4 * width)], f"inner{n}")
        active = self._node("Relu", [inner], f"active{n}")
        down = self._node("MatMul", [active, self._weights(f"down{n}", 4 * width, width)], f"outer{n}")
        total = self._node("Add", [attended, down], f"total{n}")
        norm = [self._constant(f"gain{n}", np.ones(width)), self._constant(f"shift{n}", np.zeros(width))]
        self._node("LayerNormalization", [total, *norm], f"x{n + 1}", axis=-1)

    def save(self, path: Path) -> None:
        """Write the model to a file."""
        names = ("input_ids", "attention_mask")
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names]
        output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])
        graph = helper.make_graph(self._nodes, "encoder", inputs, [output], self._constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def write_model(folder: Path, words: Sequence[str], *, layers: int, width: int) -> Path:
    folder.mkdir()
    Encoder(write_tokenizer(folder, words), layers, width, 4).save(folder / "model.onnx")
    config = {
        "architectures": ["RandomForSequenceClassification"],
        "id2label": {"0": "unsupported", "1": "supported"},
        "max_position_embeddings": 512,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


async def labeled(items: Sequence[RagInteraction], at_once: int, **models: Any) -> float:
    """Return the seconds for all items."""
    settings = Settings.model_validate({"models": models})
    labeler = ModelLabeler(settings, await load_models(settings))
    slots = asyncio.Semaphore(at_once)

    async def one(item: RagInteraction) -> None:
        async with slots:
            await labeler.label(item)

    await one(items[0])
    begun = time.perf_counter()
    await asyncio.gather(*map(one, items))
    took = time.perf_counter() - begun
    await labeler.aclose()
    return took


WAYS: Final[dict[str, dict[str, Any]]] = {
    "one input at a time": {"at_once": 1, "batch": 1},
    "one interaction at a time": {"at_once": 1},
    "64 interactions in work, common batches": {"at_once": 64},
    "the same, batches of up to 8,192 tokens": {"at_once": 64, "batch_tokens": 8192},
}


def speed(folder: Path, items: Sequence[RagInteraction], rounds: int, threads: int, title: str) -> None:
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            took = asyncio.run(labeled(items, support=str(folder), threads=threads, **way))
            found[name].append(len(items) / took)
            print(name, f"{found[name][-1]:.1f}/s", file=sys.stderr)
    unit = next(iter(WAYS))
    ratios = {name: median(np.array(each) / np.array(found[unit])) for name, each in found.items()}
    print(f"| {title}, threads = {threads} | interactions a second | ratio |\n|---|---|---|")
    for name, each in found.items():
        print(f"| {name} | {median(each):.1f} | {ratios[name]:.2f} |")
    print()


async def probabilities(items: Sequence[RagInteraction], **models: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the probability of support of each response as a whole."""
    found = (await load_models(Settings.model_validate({"models": models}))).support
    if not isinstance(found, PairClassifier):
        raise TypeError("the model of the benchmark classifies pairs")
    rows = [found.support([each.text for each in item.documents], [item.response]) for item in items]
    values = [value for row in await asyncio.gather(*rows) for value in row]
    await found.aclose()
    return np.array(values)


async def differences(folder: Path, items: Sequence[RagInteraction]) -> None:
    """Print by how much common batches change probabilities."""
    quantize_dynamic(folder / "model.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8)
    print("| weights | largest difference of a probability, alone and in batches |\n|---|---|")
    for name, file in (("32 bits", "model.onnx"), ("8 bits, dynamic", "int8.onnx")):
        given = {"support": str(folder), "support_file": file}
        alone = await probabilities(items, **given, batch=1)
        common = await probabilities(items, **given, batch=32, batch_tokens=8192)
        print(f"| {name} | {abs(alone - common).max():.4f} |")
    print()


async def memory(folder: Path, items: Sequence[RagInteraction], n: int) -> None:
    settings = Settings.model_validate({"models": {"support": str(folder)}})
    labeler = ModelLabeler(settings, await load_models(settings))
    process = psutil.Process()
    step = max(n // 10, 1)
    print("| interactions | memory of the process, MB |\n|---|---|")
    for start in range(0, n, step):
        # Texts of many lengths: a model that kept a plan for each would grow.
        chosen = [items[(start + number) % len(items)] for number in range(step)]
        for part in range(0, step, 64):
            await asyncio.gather(*map(labeler.label, chosen[part : part + 64]))
        gc.collect()
        print(f"| {start + step:,} | {process.memory_info().rss / 1e6:.0f} |", flush=True)
    await labeler.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=20_000)
    options = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    demo = demo_interactions()
    words = vocabulary(
        [
            text
            for interaction in demo
            for text in (interaction.response, *(each.text for each in interaction.documents))
        ]
    )
    print("# The labeler model: speed and memory\n")
    print(
        "Written by `make models` (`benchmarks/model_labelers.py`): models of random weights, interactions of the demo."
    )
    print(f"Medians of {options.rounds} rounds in turns, of {options.items} interactions.\n")
    with tempfile.TemporaryDirectory() as place:
        items = [demo[number % len(demo)] for number in range(options.items)]
        for layers, width in ((2, 64), (4, 256)):
            folder = write_model(Path(place) / f"{width}", words, layers=layers, width=width)
            for threads in (1, 2):
                speed(folder, items, options.rounds, threads, f"{layers} layers of width {width}")
        small = write_model(Path(place) / "small", words, layers=1, width=16)
        print(f"## Batches and results\n\n{len(items)} interactions, 2 layers of width 64.\n")
        asyncio.run(differences(Path(place) / "64", items))
        print("## Memory\n\nOne process, 64 interactions at a time; a model of 1 layer of width 16.\n")
        asyncio.run(memory(small, demo, options.long))


if __name__ == "__main__":
    main()
