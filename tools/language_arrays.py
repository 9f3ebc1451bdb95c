"""Writes the language model of the installed py3langid as plain arrays, as `text/language_model.py` reads them.

python tools/language_arrays.py
"""

import json
from collections import deque
from importlib.metadata import distribution

import numpy as np
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from ragtide_consumers.text import ARRAYS as FOLDER
from ragtide_consumers.text.language_model import LONGEST, endings


def sequences_of(identifier: LanguageIdentifier) -> dict[bytes, int]:
    """Return the states of the identifier's automaton, by the sequence of bytes that leads to each of them.

    Raises:
        ValueError: a state is not that of the longest sequence at the end of a text.
    """
    moves = np.array(identifier.tk_nextmove).reshape(-1, 256)[np.array(identifier.tk_row)]
    found, waiting = {b"": 0}, deque([b""])
    seen = {0}
    while waiting:
        sequence = waiting.popleft()
        for byte, state in enumerate(moves[found[sequence]].tolist()):
            if state not in seen:
                seen.add(state)
                found[longer := sequence + bytes([byte])] = state
                waiting.append(longer)
    if max(map(len, found)) > LONGEST:
        raise ValueError(f"a sequence has more than {LONGEST} bytes")
    # The automaton moves to the child of a sequence, or to where the longest known end of the sequence moves.
    for sequence, state in found.items():
        end = next((end for at in range(1, len(sequence) + 1) if (end := sequence[at:]) in found), b"")
        expected = moves[found[end]].copy() if sequence else np.zeros(256, moves.dtype)
        for byte in range(256):
            child = found.get(sequence + bytes([byte]))
            if child is not None:
                expected[byte] = child
        if not np.array_equal(expected, moves[state]):
            raise ValueError(f"the state of {sequence!r} does not move to the longest sequence")
    return found


def ranges_of(features: dict[bytes, int]) -> dict[int, int]:
    """Return the feature of each range of endings, by its first number, in order.

    Args:
        features: of each sequence, also the empty one; -1 without one.
    """
    # A longer sequence replaces a part of the range of a shorter one: after it, the shorter one goes on.
    events: dict[int, int] = {}
    for sequence in sorted(features, key=len):
        first = int(endings(sequence)[-1]) if sequence else 0
        after = first + 2 ** (9 * (LONGEST - len(sequence)))
        shorter = (
            next(end for at in range(1, len(sequence) + 1) if (end := sequence[at:]) in features) if sequence else b""
        )
        events[first] = features[sequence]
        events.setdefault(after, features[shorter])
    found: dict[int, int] = {}
    last = None
    for first, feature in sorted(events.items()):
        if feature != last:
            found[first] = last = feature
    return found


def main() -> None:
    """Write the arrays."""
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    states = sequences_of(identifier)
    features = {sequence: identifier.tk_output[state] for sequence, state in states.items()}
    starts = ranges_of({**features, b"": -1})
    logs = identifier.nb_ptc
    unseen = logs.min(axis=0)
    rows, columns = (logs != unseen).nonzero()
    arrays = {
        "firsts": np.array([*starts], np.int64),
        "features": np.array([*starts.values()], np.int32),
        "lengths": np.bincount(rows, minlength=len(logs)).astype(np.uint8),
        "columns": columns.astype(np.uint8),
        "logs": logs[rows, columns],
    }
    FOLDER.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(FOLDER / f"{name}.npy", array, allow_pickle=False)
    source = distribution("py3langid")
    languages = {
        "source": f"py3langid {source.version}",
        "codes": identifier.nb_classes,
        "prior": identifier.nb_pc.tolist(),
        "unseen": unseen.tolist(),
    }
    (FOLDER / "languages.json").write_text(json.dumps(languages, indent=1) + "\n", encoding="utf-8")
    licence = next(file for file in source.files or () if file.name == "LICENSE")
    (FOLDER / "LICENSE").write_text(licence.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    main()
