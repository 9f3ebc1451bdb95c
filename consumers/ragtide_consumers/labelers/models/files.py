"""The files of a model: found in a folder, checked before anything is loaded, and their digest.

Only ONNX is read. A pickle may run code when it is loaded, and so may a model with code of its own.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ragtide_runtime.errors import ConfigurationError

from .calibration import NAME as CALIBRATION
from .calibration import Calibration

PICKLES: Final = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
"""Endings of files that may be pickles."""

MODEL_BYTES: Final = 8 * 2**30
"""Most bytes of the files of one model."""
JSON_BYTES: Final = 64 * 2**20
"""Most bytes of `config.json`, `calibration.json` and `tokenizer.json`."""

DIGEST_DIGITS: Final = 16
"""Hexadecimal digits of a digest in the labeler's version."""

_Parsed = TypeVar("_Parsed", bound=BaseModel)

_LOCATION: Final = b"\x0a\x08location"
"""The key `location` of a tensor whose data is in another file, as protobuf writes it."""


class ModelConfig(BaseModel):
    """The part of `config.json` that matters."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    architectures: tuple[str, ...] = ()
    """Names such as `BertForSequenceClassification`."""
    id2label: dict[int, str] | None = None
    """Name of each label."""
    max_position_embeddings: int | None = None
    """Most tokens of an input."""
    model_type: str = ""
    """Name such as `roberta`."""
    pad_token_id: int | None = None
    """Token that fills inputs of a batch to one length."""
    auto_map: Any = None
    """Code that the model brings, if any."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's files, checked and not yet loaded."""

    name: str
    """The model in words, for messages."""
    onnx: Path
    tokenizer: Path
    config: ModelConfig
    calibration: Calibration
    digest: str
    """SHA-256 of all files that change its scores, in hexadecimal digits."""


def model_files(
    folder: str,
    file: str,
    *,
    setting: str,
    sha256_begins: str = "",
    optional: Sequence[str] = (CALIBRATION,),
) -> ModelFiles:
    """Return the checked files of a model.

    Args:
        file: the ONNX file in it.
        setting: name of the setting that names the folder, for messages.
        sha256_begins: first digits that the digest must have.
        optional: more files that belong to the model where they are there.

    Raises:
        ConfigurationError: a file is missing, not allowed or too large, or the digest is another.
    """
    place = Path(folder).expanduser()
    name = f"{setting} = {folder!r}"
    if place.is_file():
        raise ConfigurationError(f"{name} is a file: {_why_not(place)}")
    if not place.is_dir():
        raise ConfigurationError(f"{name} is not a folder: correct the path")
    onnx = place / file
    if not onnx.is_file():
        raise ConfigurationError(f"{name} has no {file}{_advice_on_pickles(place)}")
    if onnx.suffix != ".onnx" or _is_no_protobuf(onnx) or not onnx.stat().st_size:
        raise ConfigurationError(f"{name}: {_why_not(onnx)}")
    if not (place / "config.json").is_file():
        raise ConfigurationError(f"{name} has no config.json: copy it from the model's repository")
    config = parse_json(place, "config.json", ModelConfig, name)
    check_code(config, name)
    tokenizer = place / "tokenizer.json"
    if not tokenizer.is_file():
        raise ConfigurationError(
            f"{name} has no tokenizer.json: save the model's fast tokenizer there (AutoTokenizer(...).save_pretrained)"
        )
    present = [other for other in optional if (place / other).is_file()]
    files = [("onnx", onnx), *((other, place / other) for other in ("tokenizer.json", "config.json", *present))]
    calibration = parse_json(place, CALIBRATION, Calibration, name) if CALIBRATION in present else Calibration()
    _check_size(files, name)
    files += [(other, onnx.parent / other) for other in sorted(external_files(onnx, name))]
    _check_size(files, name)
    digest = _digest(files)
    if not digest.startswith(sha256_begins):
        raise ConfigurationError(
            f"{name} has the digest {digest}, which does not begin with {sha256_begins}: the model was changed, so "
            f"restore it, or set {setting}_digest to the new digest"
        )
    return ModelFiles(name, onnx, tokenizer, config, calibration, digest)


def check_code(config: ModelConfig, name: str) -> None:
    """Check that a model needs no code of its own.

    Args:
        config: of the model.
        name: the model in words, for the message.

    Raises:
        ConfigurationError: it does.
    """
    if config.auto_map:
        raise ConfigurationError(
            f"{name} needs code of its own (auto_map in config.json), which ragtide never runs: use a model of a "
            "standard architecture"
        )


def _why_not(path: Path) -> str:
    if not path.stat().st_size:
        return f"{path.name} is empty: copy it again"
    if path.suffix == ".onnx" and not _is_no_protobuf(path):
        return "name the folder that holds it"
    if path.suffix in PICKLES or _is_no_protobuf(path):
        return f"{path.name} is no ONNX file but a pickle or an archive, which can run code: export the model to ONNX"
    return f"{path.name} is no ONNX file: export the model to ONNX"


def _is_no_protobuf(path: Path) -> bool:
    with path.open("rb") as opened:
        return opened.read(2) in {b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK"}


def _advice_on_pickles(folder: Path) -> str:
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if not pickles:
        return ": export the model to ONNX into that folder, or correct the file's name"
    return f", only {pickles[0]}, which may be a pickle and can run code: export the model to ONNX"


def parse_json(folder: Path, file: str, model: type[_Parsed], name: str) -> _Parsed:
    """Return the content of a JSON file of a model.

    Args:
        file: the file in it.
        model: form of the content.

    Raises:
        ConfigurationError: the file is too large, or has another form.
    """
    path = folder / file
    if path.stat().st_size > JSON_BYTES:
        raise ConfigurationError(f"{name}: {file} has more than {JSON_BYTES} bytes: correct the file")
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{name}: {file}{where and f', {where}'}: {first['msg']}: correct it") from None


def _check_size(files: Iterable[tuple[str, Path]], name: str) -> None:
    total = sum([path.stat().st_size for _, path in files])
    if total > MODEL_BYTES:
        raise ConfigurationError(f"{name} has {total:,} bytes, more than {MODEL_BYTES:,}: use a smaller model")


def external_files(onnx: Path, name: str, *, must_exist: bool = True) -> set[str]:
    """Return the names of the files that hold tensors of a model; refuse names that lead out of its folder.

    onnxruntime checks the names too; this check does not depend on its version.

    Args:
        onnx: file of the model.
        must_exist: whether a missing file is refused.

    Raises:
        ConfigurationError: a name leads out of the folder, or its file is missing.
    """
    if not onnx.stat().st_size:
        return set()
    names = set(_external_names(onnx))
    for file in sorted(names):
        if not re.fullmatch(r"[\w.-]+", file) or file in {".", ".."}:
            raise ConfigurationError(
                f"{name}: {onnx.name} takes data from {file[:80]!r}, outside of its folder: export the model again"
            )
        if must_exist and not (onnx.parent / file).is_file():
            raise ConfigurationError(f"{name}: {onnx.name} takes data from {file}, which is missing: copy it there")
    return names


def _external_names(onnx: Path) -> Iterator[str]:
    with onnx.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
        at = data.find(_LOCATION)
        while at >= 0:
            at += len(_LOCATION)
            # The value follows as field 2, of fewer than 128 bytes.
            if data[at : at + 1] == b"\x12":
                yield data[at + 2 : at + 2 + data[at + 1]].decode("utf-8", "replace")
            at = data.find(_LOCATION, at)


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    # The ONNX file has the name `onnx`, so that it may be renamed.
    total = sha256()
    for name, path in files:
        content = sha256()
        with path.open("rb") as opened:
            while block := opened.read(2**20):
                content.update(block)
        total.update(f"{name}\0{content.hexdigest()}\n".encode())
    return total.hexdigest()
