"""Keys of sentences in RAGBench's form: `0a`, `0b`, ..., `0z`, `0aa` in documents; `a`, `b`, ... in a response.

Source: Friel et al., RAGBench (arXiv:2407.11005), appendix 7.4.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache


def letters(index: int) -> str:
    """Return the letters of the sentence at an index from 0, in the order of column names in spreadsheets.

    >>> [letters(i) for i in (0, 25, 26, 27, 701, 702)]
    ['a', 'z', 'aa', 'ab', 'zz', 'aaa']
    """
    name = ""
    rest = index + 1
    while rest:
        rest, letter = divmod(rest - 1, 26)
        name = chr(ord("a") + letter) + name
    return name


def letters_of(name: str) -> str:
    """Return the letters and digits of a name in lower case, which are the same in every spelling.

    >>> letters_of("max_tokens"), letters_of("Max Tokens")
    ('maxtokens', 'maxtokens')
    """
    return _letters_of(name[:80])


@lru_cache(maxsize=1024)  # the names of fields and reasons, which are few
def _letters_of(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def response_keys(n_sentences: int) -> tuple[str, ...]:
    """Return the keys of a response's sentences, in order."""
    return tuple(letters(index) for index in range(n_sentences))


def document_keys(n_sentences: Iterable[int]) -> tuple[str, ...]:
    """Return the keys of all documents' sentences, given how many each document has.

    >>> document_keys([2, 0, 1])
    ('0a', '0b', '2a')
    """
    return tuple(f"{document}{letters(index)}" for document, n in enumerate(n_sentences) for index in range(n))


@lru_cache(maxsize=4096)
def normalize_key(key: str) -> str:
    """Return a judge's key in the form of the prompt: without brackets, quotes, dots and capitals.

    Judges copy the dot of "0a." from their prompt; 354 of 401 bad keys in RAGBench have this fault.

    >>> normalize_key(" [0A]. ")
    '0a'
    """
    return key.strip("[](){}<>'\"`.,;: \t\n").lower()


def normalize_keys(keys: Iterable[str]) -> Sequence[str]:
    """Return keys normalized, each once, in the order of their first appearance."""
    return list(dict.fromkeys(normalize_key(key) for key in keys))
