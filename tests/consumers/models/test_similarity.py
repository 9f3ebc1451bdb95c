"""Similarity by sentence vectors: cosines by hand, one vector a sentence, and numbers that no batch changes."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tests.consumers.models.hub_server import hub_of
from tests.consumers.models.small_models import SPECIAL, WORDS, encoder, write, write_encoder
from tests.consumers.models.test_model_labeler import tower

from ragtide import Labeler, RagInteraction
from ragtide_consumers.labelers.models.loading import load_models
from ragtide_consumers.labelers.models.sentence_encoder import SentenceEncoder
from ragtide_consumers.labelers.models.tokens import ModelInput
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

SUPPORT, MATCH = "similarity.support", "similarity.match"

TWO = tower("The tower was built in 1889. It was built of stone.", "The tower was built in 1889.", "It has lifts.")

MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
FIRST = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "include_prompt": True}


def cosine(one: str, other: str) -> float:
    """Return the cosine of the counts of words, with [CLS] and [SEP], which every sentence has."""

    def counts(text: str) -> dict[str, int]:
        words = [*"".join(f" {sign} " if sign in ".?" else sign.lower() for sign in text).split(), "[CLS]", "[SEP]"]
        return {word: words.count(word) for word in words}

    first, second = counts(one), counts(other)
    product = sum(count * second.get(word, 0) for word, count in first.items())
    return product / sqrt(sum(count**2 for count in first.values()) * sum(count**2 for count in second.values()))


def settings_of(folder: Path | str, **models: Any) -> Settings:
    return Settings.model_validate({"labeler": "model", "models": {"similarity": str(folder), **models}})


@asynccontextmanager
async def labeler(folder: Path | str, **models: Any) -> AsyncIterator[Labeler]:
    async with labeler_of(settings_of(folder, **models), None) as made:
        yield made


async def scores(folder: Path | str, interaction: RagInteraction, **models: Any) -> dict[str, float]:
    async with labeler(folder, **models) as made:
        return dict((await made.label(interaction)).scores)


async def refused(folder: Path | str, message: str, **models: Any) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        await scores(folder, TWO, **models)
    assert "\n" not in str(raised.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path / "encoder")


async def test_each_sentence_counts_by_its_closest_document_sentence(folder: Path) -> None:
    stone = max(cosine("It was built of stone.", text) for text in ("The tower was built in 1889.", "It has lifts."))
    question = max(cosine(TWO.question, text) for text in ("The tower was built in 1889.", "It has lifts."))
    assert 0 < stone < 1
    async with labeler(folder) as made:
        labeling = await made.label(TWO)
    assert labeling.scores == pytest.approx({SUPPORT: (1 + stone) / 2, MATCH: question}, abs=1e-6)
    # Without a classifier nothing is said about labels.
    assert labeling.absent == {}
    assert labeling.labels == ()


async def test_similarity_stands_beside_the_labels_of_other_models(folder: Path, tmp_path: Path) -> None:
    both = await scores(folder, TWO, support=str(write(tmp_path / "pair")))
    assert both == {**await scores(folder, TWO), "trace.adherence": 1.0, "trace.supported_fraction": 1.0}


@pytest.mark.parametrize(
    ("interaction", "absent"),
    [
        (tower("It has lifts."), dict.fromkeys((SUPPORT, MATCH), "nothing_retrieved")),
        (tower("", "It has lifts."), dict.fromkeys((SUPPORT, MATCH), "no_response")),
        (tower("The documents do not contain an answer to the question.", "It has lifts."), {SUPPORT: "refusal"}),
    ],
)
async def test_what_cannot_be_compared_is_absent(
    folder: Path, interaction: RagInteraction, absent: dict[str, str]
) -> None:
    async with labeler(folder) as made:
        labeling = await made.label(interaction)
    assert labeling.absent == absent
    assert labeling.scores.keys() == {SUPPORT, MATCH} - absent.keys()


async def test_more_different_sentences_than_allowed_are_too_long_and_equal_ones_count_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The question, the two sentences of the response, of which the documents repeat one, and "It has lifts.".
    monkeypatch.setattr("ragtide_consumers.labelers.models.sentence_encoder.MAX_INPUTS", 4)
    async with labeler(folder) as made:
        assert (await made.label(TWO)).scores
    monkeypatch.setattr("ragtide_consumers.labelers.models.sentence_encoder.MAX_INPUTS", 3)
    async with labeler(folder) as made:
        assert set((await made.label(TWO)).absent.items()) == {(SUPPORT, "too_long"), (MATCH, "too_long")}


async def loaded(folder: Path, **models: Any) -> SentenceEncoder:
    found = (await load_models(settings_of(folder, **models))).similarity
    assert found is not None
    return found


async def test_equal_sentences_are_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = await loaded(folder)
    run, seen = model.session.run, list[int]()

    def recorded(inputs: Sequence[ModelInput]) -> Any:
        seen.append(len(inputs))
        return run(inputs)

    monkeypatch.setattr(model.session, "run", recorded)
    found = await model.similarities("It has lifts.", ["It has lifts."] * 50, ["It has lifts.", "Paris is tall."] * 40)
    await model.aclose()
    assert found is not None
    assert (found.response, found.question, sum(seen)) == ([1.0] * 50, 1.0, 2)


@pytest.mark.parametrize(("cache", "expected"), [(10_000, [4, 1, 0]), (2, [4, 2, 2]), (0, [4, 4, 4])])
async def test_a_sentence_that_comes_again_is_not_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cache: int, expected: list[int]
) -> None:
    monkeypatch.setattr("ragtide_consumers.labelers.models.sentence_encoder.VECTORS_MAX", cache)
    model = await loaded(folder)
    run, seen = model.session.run, list[int]()

    def recorded(inputs: Sequence[ModelInput]) -> Any:
        seen.append(len(inputs))
        return run(inputs)

    monkeypatch.setattr(model.session, "run", recorded)
    documents = ["The tower was built.", "It has lifts."]
    found, read = list[Any](), list[int]()
    for question in ("When?", "Where?", "Where?"):
        seen.clear()
        found.append(await model.similarities(question, ["It has lifts and stone."], documents))
        read.append(sum(seen))
    await model.aclose()
    assert read == expected
    assert found[0].response == found[1].response
    assert found[1] == found[2]


async def test_a_long_sentence_is_read_in_parts(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "short", sentences={"max_seq_length": 16})
    # 20 words are two parts of 10. Both stand in the document, whose 40 words are three parts of other places.
    model = await loaded(folder)
    first, second = "a b c d e f g h i j", "the tower was built in 1889 of iron paris is"
    found = await model.similarities("lifts", [f"{first} {second}"], [first, second])
    assert found is not None
    assert found.response == [1.0]
    found = await model.similarities("lifts", [f"{first} {second}"], [first, "lifts"])
    assert found is not None
    # The second part is only as close as [CLS] and [SEP] make it.
    assert found.response == pytest.approx([max(cosine(second, first), cosine(second, "lifts"))], abs=1e-6)
    await model.aclose()


SENTENCES = st.lists(st.lists(st.sampled_from(WORDS[:20]), min_size=1, max_size=12).map(" ".join), max_size=6)


@given(SENTENCES.filter(bool), SENTENCES.filter(bool), st.sampled_from(WORDS))
def test_similarity_is_in_range_and_no_document_sentence_lowers_it(
    tmp_path_factory: pytest.TempPathFactory, response: list[str], documents: list[str], question: str
) -> None:
    folder = write_encoder(tmp_path_factory.mktemp("encoder"))

    async def all_ways() -> None:
        model = await loaded(folder)
        found = await model.similarities(question, response, documents)
        more = await model.similarities(question, response, [*documents, question])
        own = await model.similarities(question, response, [*documents, *response])
        assert found is not None
        assert more is not None
        assert own is not None
        expected = [max(cosine(sentence, text) for text in documents) for sentence in response]
        assert found.response == pytest.approx(expected, abs=2e-6)
        assert all(0 <= before <= after for before, after in zip(found.response, more.response, strict=True))
        assert more.question == 1.0
        assert own.response == [1.0] * len(response)
        await model.aclose()

    asyncio.run(all_ways())


async def test_the_pooling_is_that_of_the_model(tmp_path: Path) -> None:
    mean = write_encoder(tmp_path / "mean", pooling=MEAN)
    assert await scores(mean, TWO) == await scores(write_encoder(tmp_path / "plain"), TWO)
    # Every sentence begins with [CLS], whose numbers do not depend on the others in this model.
    assert await scores(write_encoder(tmp_path / "first", pooling=FIRST), TWO) == {SUPPORT: 1.0, MATCH: 1.0}


async def test_a_vector_of_a_sentence_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = write_encoder(
        tmp_path / "pooled",
        output="sentence_embedding",
        pooling=FIRST,
        modules=[{"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Dense")],
    )
    assert await scores(folder, TWO) == await scores(write_encoder(tmp_path / "tokens"), TWO)


async def test_a_model_whose_vectors_would_be_wrong_is_refused(tmp_path: Path) -> None:
    strange = {**MEAN, "pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True}
    for pooling, named in ((strange, "lasttoken"), ({**MEAN, "pooling_mode_max_tokens": True}, "mean_tokens and max")):
        message = rf"has the pooling {named}.*, and ragtide knows mean_tokens and cls_token: use another model"
        await refused(write_encoder(tmp_path / named, pooling=pooling), message)
    dense = write_encoder(
        tmp_path / "dense", modules=[{"type": "a.Transformer"}, {"type": "a.Pooling"}, {"type": "a.Dense"}]
    )
    await refused(dense, r"has the step Dense in modules\.json, which model\.onnx does not contain: export it with")
    await refused(write_encoder(tmp_path / "pooler", output="pooler_output"), "gives a pooler's output alone")
    await refused(write(tmp_path / "pair"), r"architecture SmallForSequenceClassification, by config\.json: a model")
    await refused(write_encoder(tmp_path / "form", pooling=[1]), r"1_Pooling/config\.json: Input should be")


async def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    rows = np.full((len(SPECIAL) + len(set(WORDS)), 8), np.nan, dtype=np.float32)
    await refused(write_encoder(tmp_path / "infinite", rows=rows), "not finite numbers for each token")


async def test_the_files_of_pooling_belong_to_the_digest_and_come_from_the_hub(tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    remote = write_encoder(tmp_path / "remote", pooling=FIRST, sentences={"max_seq_length": 16})
    async with labeler(remote) as made:
        version = made.version
    digest = version.removeprefix("similarity:")[:16]
    with hub_of({f"owner/encoder@{commit}": remote}) as hub:
        given = {"hub_url": hub.url, "cache_dir": str(tmp_path / "cache"), "similarity_digest": digest}
        async with labeler(f"owner/encoder@{commit}", **given) as made:
            assert made.version == version
    (remote / "1_Pooling" / "config.json").write_text(json.dumps(MEAN))
    await refused(remote, f"which does not begin with {digest}: the model was changed", similarity_digest=digest)


def eight_bits(model: onnx.ModelProto, block: int = 16) -> onnx.ModelProto:
    """Return a model whose layer has weights of eight bits, with a scale for each block of them.

    It is what `onnxruntime.quantization.matmul_nbits_quantizer` makes with 8 bits and `--accuracy_level 1`: the numbers
    that the weights are multiplied with stay 32 bits.
    """
    (weights,) = (numpy_helper.to_array(one) for one in model.graph.initializer if one.name == "layer")
    width, n = weights.shape
    blocks = weights.T.reshape(n, width // block, block)
    scales = np.maximum(abs(blocks).max(axis=2), 1e-9) / 127
    packed = np.round(blocks / scales[..., None]) + 128
    constants = {"packed": packed.astype(np.uint8), "scales": scales.astype(np.float32).reshape(-1)}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    (node,) = (one for one in model.graph.node if one.name == "layer")
    node.CopyFrom(
        helper.make_node(
            "MatMulNBits",
            ["words", *constants],
            ["tokens"],
            domain="com.microsoft",
            K=width,
            N=n,
            bits=8,
            block_size=block,
            accuracy_level=1,
        )
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    """The folder of an encoder of random numbers, in 32 bits, in 8 bits of the weights alone, and dynamic."""
    random = np.random.default_rng(1)
    words = [*SPECIAL, *dict.fromkeys(WORDS)]
    # Short words have small numbers: dynamic quantization scales all of a batch by the largest.
    sizes = np.array([[0.1 if len(word) == 1 or word in SPECIAL else 2.0] for word in words])
    rows = (random.normal(0, 1, (len(words), 64)) * sizes).astype(np.float32)
    model = encoder(rows)
    (layer,) = (one for one in model.graph.initializer if one.name == "layer")
    layer.CopyFrom(numpy_helper.from_array(random.normal(0, 1, (64, 64)).astype(np.float32), "layer"))
    folder = write_encoder(tmp_path / "random")
    onnx.save(model, str(folder / "model.onnx"))
    quantize_dynamic(
        folder / "model.onnx", folder / "dynamic.onnx", op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8
    )
    onnx.save(eight_bits(model), str(folder / "eight_bits.onnx"))
    return folder


async def many(folder: Path, **models: Any) -> list[dict[str, float]]:
    """Return the scores of many interactions at once, whose sentences are in batches together."""
    random = np.random.default_rng(2)
    texts = [" ".join(random.choice(WORDS, size)) for size in random.integers(1, 40, 60)]
    asked = [
        tower(f"{texts[n].capitalize()}.", *texts[n + 1 : n + 6], interaction_id=f"{n}") for n in range(len(texts) - 6)
    ]
    async with labeler(folder, **models) as made:
        return [dict(found.scores) for found in await asyncio.gather(*map(made.label, asked))]


async def test_weights_of_eight_bits_give_the_same_in_every_batch(quantized: Path) -> None:
    plain = await many(quantized)
    found = await many(quantized, similarity_file="eight_bits.onnx")
    for batch, tokens in ((1, 1024), (7, 1024), (64, 100_000)):
        again = await many(quantized, similarity_file="eight_bits.onnx", batch=batch, batch_tokens=tokens)
        assert again == found
    differences = [abs(one[name] - other[name]) for one, other in zip(plain, found, strict=True) for name in one]
    assert 0 < max(differences) < 0.02


async def test_dynamic_quantization_is_refused_unless_each_sentence_is_alone(quantized: Path) -> None:
    message = r"another vector in another batch \(by 0\.\d+\), as dynamic quantization does: use the model of 32 bits"
    await refused(quantized, message, similarity_file="dynamic.onnx")
    assert await many(quantized, similarity_file="dynamic.onnx", batch=1)


async def test_the_sample_of_a_cascade_has_similarity_and_the_rest_does_not(folder: Path) -> None:
    settings = Settings.model_validate(
        {
            "labeler": "cascade",
            "cascade": {"proxy": "local", "reference": "model", "rate": 0.25},
            "models": {"similarity": str(folder)},
        }
    )
    asked = [TWO.model_copy(update={"interaction_id": f"{number}"}) for number in range(200)]
    async with labeler_of(settings, None) as made:
        found = [await made.label(interaction) for interaction in asked]
    judged = [labeling.judged for labeling in found if labeling.judged is not None]
    assert 25 < len(judged) < 75
    assert all(one.labeling.scores.keys() == {SUPPORT, MATCH} and one.by.name == "model" for one in judged)
    assert {one.inclusion_probability for one in judged} == {0.25}
    assert all("trace.adherence" in labeling.scores and SUPPORT not in labeling.scores for labeling in found)
