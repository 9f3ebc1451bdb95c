"""Inputs are put together as the tokenizer itself would, for the kinds of tokenizers that models have."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.consumers.models.small_models import TEXT, tokenizer, write
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from ragtide_consumers.labelers.models.files import ModelFiles, model_files
from ragtide_consumers.labelers.models.tokens import ModelTokenizer, together
from ragtide_runtime.errors import ConfigurationError


def words() -> Tokenizer:
    """Return a tokenizer as BERT's: words, types 0 and 1."""
    return tokenizer()


def bytes_as_roberta() -> Tokenizer:
    """Return a tokenizer of bytes: two separators between the texts, and one type."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([TEXT] * 5, trainer)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return made


def pieces_as_deberta() -> Tokenizer:
    """Return a tokenizer of pieces whose spaces are letters."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="[UNK]", show_progress=False)
    made.train_from_iterator([TEXT] * 5, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return made


KINDS = {"words": words, "bytes": bytes_as_roberta, "pieces": pieces_as_deberta}


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, ModelTokenizer]:
    """Return a tokenizer, and ours of the same file."""
    folder = write(tmp_path_factory.mktemp(request.param))
    KINDS[request.param]().save(str(folder / "tokenizer.json"))
    return Tokenizer.from_file(str(folder / "tokenizer.json")), ModelTokenizer(files(folder), None)


def files(folder: Path) -> ModelFiles:
    return model_files(str(folder), "model.onnx", setting="models.support")


TEXTS = st.text(st.sampled_from(TEXT + "\n\tÄß漢е́\u200d😀"), max_size=40)


@settings(max_examples=40)
@given(TEXTS, TEXTS)
def test_an_input_is_the_one_that_the_tokenizer_makes(
    pair: tuple[Tokenizer, ModelTokenizer], first: str, second: str
) -> None:
    theirs, ours = pair
    expected = theirs.encode(first, second)
    made = ours.pair(ours.tokens(first).ids, ours.tokens(second).ids)
    ids, mask, types = together([made], 0, 512)
    assert ids[0, : made.n_tokens].tolist() == expected.ids
    assert types[0, : made.n_tokens].tolist() == expected.type_ids
    assert mask[0].tolist() == [1] * made.n_tokens + [0] * (ids.shape[1] - made.n_tokens)
    part = expected.sequence_ids[made.second : made.second + made.n_second]
    assert part == [1] * made.n_second == [one for one in expected.sequence_ids if one == 1]


@settings(max_examples=40)
@given(TEXTS)
def test_the_places_of_tokens_are_characters_of_the_text(pair: tuple[Tokenizer, ModelTokenizer], text: str) -> None:
    tokens = pair[1].tokens(text)
    assert all(0 <= start <= end <= len(text) for start, end in zip(tokens.starts, tokens.ends, strict=True))
    assert tokens.ends.tolist() == sorted(tokens.ends.tolist())


def test_a_tokenizer_that_turns_the_texts_around_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "turned")
    turned = tokenizer()
    turned.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $B [SEP] $A:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    turned.save(str(folder / "tokenizer.json"))
    with pytest.raises(ConfigurationError, match=r"tokenizer\.json puts the second text before the first"):
        ModelTokenizer(files(folder), None)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 512}, 512),
        ({"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}, 512),
        ({"max_position_embeddings": 8192}, 4096),
        ({"max_position_embeddings": None}, 512),
        ({"max_position_embeddings": -1}, 512),
    ],
)
def test_the_length_of_an_input_is_that_of_the_config(tmp_path: Path, config: dict[str, int], expected: int) -> None:
    folder = write(tmp_path / "small", config=config)
    assert ModelTokenizer(files(folder), None).max_tokens == expected
    assert ModelTokenizer(files(folder), 100).max_tokens == 100
