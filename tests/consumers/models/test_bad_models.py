"""A model that cannot be used, or must not be, is refused in one sentence that says what to do."""

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.consumers.models.small_models import graph, write

from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

Break = Callable[[Path], Any]


async def load(support: Path | str, **models: Any) -> str:
    """Return the version of the labeler of a model."""
    given = {"labeler": "model", "models": {"support": str(support), **models}}
    async with labeler_of(Settings.model_validate(given), None) as one:
        return one.version


def config(**changes: Any) -> Break:
    def changed(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return changed


def external(location: str) -> Break:
    """Return a change that lets a model take a tensor from another file."""

    def changed(folder: Path) -> None:
        model = graph("pair")
        tensor = next(one for one in model.graph.initializer if one.name == "scale")
        (folder.parent / "outside.bin").write_bytes(np.array(8.0, dtype=np.float32).tobytes())
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location
        (folder / "model.onnx").write_bytes(model.SerializeToString())

    return changed


def own_operator(folder: Path) -> None:
    node = helper.make_node("Evil", ["input_ids"], ["evil"], domain="evil")
    (folder / "model.onnx").write_bytes(graph("pair", nodes=[node]).SerializeToString())


def only_a_pickle(folder: Path) -> None:
    (folder / "model.onnx").rename(folder / "pytorch_model.bin")


def renamed_pickle(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(pickle.dumps({"weights": 1}, protocol=4))


def another_input(folder: Path) -> None:
    model = graph("pair")
    model.graph.input.append(helper.make_tensor_value_info("pixel_values", onnx.TensorProto.FLOAT, ["batch", 3]))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def fixed_batch(folder: Path) -> None:
    model = graph("pair")
    for one in model.graph.input:
        one.type.tensor_type.shape.dim[0].ClearField("dim_param")
        one.type.tensor_type.shape.dim[0].dim_value = 1
    (folder / "model.onnx").write_bytes(model.SerializeToString())


BROKEN: dict[str, tuple[Break, str]] = {
    "no_model": (lambda folder: (folder / "model.onnx").unlink(), r"has no model\.onnx: export the model to ONNX"),
    "only_a_pickle": (only_a_pickle, r"has no model\.onnx, only pytorch_model\.bin, which may be a pickle"),
    "renamed_pickle": (renamed_pickle, r"model\.onnx is no ONNX file but a pickle or an archive, which can run code"),
    "empty": (lambda folder: (folder / "model.onnx").write_bytes(b""), r"model\.onnx is empty: copy it again"),
    "cut": (
        lambda folder: (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-40]),
        r"cannot be loaded \(.*\): export it again",
    ),
    "custom_code": (config(auto_map={"AutoModel": "x.Y"}), r"needs code of its own \(auto_map in config\.json\)"),
    "own_operator": (own_operator, r"has operators of its own \(.*evil:Evil.*\), which ragtide never loads"),
    "outside": (external("../outside.bin"), r"takes data from '\.\./outside\.bin', outside of its folder"),
    "absolute": (external("/etc/hostname"), r"takes data from '/etc/hostname', outside of its folder"),
    "missing_data": (external("model.onnx_data"), r"takes data from model\.onnx_data, which is missing: copy it"),
    "no_tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), r"has no tokenizer\.json: save the model's"),
    "bad_tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text('{"version": "1.0"}'),
        r"tokenizer\.json cannot be used \(.*\): copy it again",
    ),
    "no_config": (lambda folder: (folder / "config.json").unlink(), r"has no config\.json: copy it"),
    "bad_config": (lambda folder: (folder / "config.json").write_text("{"), r"config\.json: Invalid JSON"),
    "deep_config": (
        lambda folder: (folder / "config.json").write_text('{"a":' * 100_000),
        r"config\.json: Invalid JSON",
    ),
    "labels": (
        config(id2label={"0": "entailment", "1": "neutral", "2": "contradiction"}),
        r"gives 2 numbers, and id2label in config\.json has 3 labels",
    ),
    "unknown_labels": (
        config(id2label={"0": "good", "1": "bad"}),
        r"has the label good, whose meaning is unknown: set",
    ),
    "one_meaning": (config(id2label={"0": "neutral", "1": "contradiction"}), r"all of the same meaning: correct"),
    "masked": (config(architectures=["SmallForMaskedLM"]), r"is of the architecture SmallForMaskedLM"),
    "another_input": (another_input, r"wants the input pixel_values in another form"),
    "fixed_batch": (fixed_batch, r"fails on two short texts \(.*\): export it with a free batch size"),
    "bad_calibration": (
        lambda folder: (folder / "calibration.json").write_text('{"temperature": -1}'),
        r"calibration\.json, temperature: Input should be greater than 0: correct it",
    ),
    "two_scales": (
        lambda folder: (folder / "calibration.json").write_text('{"temperature": 2, "slope": 2}'),
        r"has temperature and slope: keep one of them",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_bad_model_is_refused_in_one_sentence(tmp_path: Path, broken: str) -> None:
    folder = write(tmp_path / "small")
    change, message = BROKEN[broken]
    change(folder)
    with pytest.raises(ConfigurationError, match=message) as raised:
        await load(folder)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1000
    assert str(raised.value).startswith("models.support = ")


async def test_a_model_that_changed_under_the_same_name_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "small")
    digest = (await load(folder)).removeprefix("support:")[:16]
    assert await load(folder, support_digest=digest) == await load(folder)
    write(folder, words=["other", "words", "a"])
    with pytest.raises(ConfigurationError, match=f"does not begin with {digest}: the model was changed, so restore it"):
        await load(folder, support_digest=digest)


async def test_data_beside_the_model_belongs_to_its_digest(tmp_path: Path) -> None:
    folder = write(tmp_path / "small")
    external("weights.bin")(folder)
    versions = []
    for scale in (8.0, 4.0):
        (folder / "weights.bin").write_bytes(np.array(scale, dtype=np.float32).tobytes())
        versions.append(await load(folder))
    assert versions[0] != versions[1]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"support": "/nowhere"}, r"models\.support = '/nowhere' is not a folder: correct the path"),
        (
            {"provider": "cuda"},
            r"models\.provider is cuda, which this onnxruntime does not have: install onnxruntime-g",
        ),
        ({"support_labels": {"no": "supported"}}, r"names the label no, and .* has unsupported, supported: correct"),
        ({"support_file": "tokenizer.json"}, r"tokenizer\.json is no ONNX file: export the model to ONNX"),
        ({"support_calibration": {"slope": -1}}, r"models\.support_calibration, slope: Input should be greater than 0"),
        ({"support_calibration": {"bias": 1}}, r"models\.support_calibration, bias: Extra inputs are not permitted"),
        ({"support": ""}, r"the labeler model has no model: set support, relevance or similarity"),
        ({"relevance": "/nowhere"}, r"models\.relevance = '/nowhere' is not a folder"),
    ],
)
async def test_a_wrong_setting_is_named(tmp_path: Path, models: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await load(**{"support": write(tmp_path / "small"), **models})


@pytest.mark.parametrize(("name", "content"), [("pytorch_model.bin", b"\x80\x02"), ("model.onnx", b"\x08\x08")])
async def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"{name}' is a file: "):
        await load(tmp_path / name)


async def test_without_the_extra_the_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigurationError, match=r"the labeler model needs onnxruntime: install ragtide\[models\]"):
        await load(write(tmp_path / "small"))
