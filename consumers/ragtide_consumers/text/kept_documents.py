"""Keeps the sentences of documents, because the same documents are retrieved again and again. No I/O.

A document is cut once while it is kept, and a labeler that computes something from its sentences alone keeps the result
with them. What is kept depends on the text of the document and nothing else.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

MOST: Final = 10_000
"""Most documents that a process keeps."""

MOST_BYTES: Final = 32 * 2**20
"""About the most bytes of them."""

LARGEST_BYTES: Final = MOST_BYTES // 16
"""Bytes from which a document is not kept, because it would replace too many others."""

CHAR_BYTES: Final = 12
"""Estimated bytes of each character of a text: itself, its sentences, and 16 bytes for each of their words."""

DOCUMENT_BYTES: Final = 2_000
"""Estimated bytes of a document besides its characters."""


class KeptSentences(list[str]):
    """The sentences of a document, which never change, and what labelers computed from them."""

    __slots__ = ("computed",)

    def __init__(self, sentences: Sequence[str] = ()) -> None:
        """Hold sentences of which nothing was computed."""
        super().__init__(sentences)
        self.computed: dict[str, Any] = {}


class CutDocument(NamedTuple):
    """A document as labelers read it."""

    verbatim: Sequence[str]
    """Its sentences, as they stand in it."""
    plain: KeptSentences
    """The same sentences without the marks of their form."""


class KeptDocuments:
    """The cut documents that were used last.

    Args:
        most: documents that are kept.
        most_bytes: about the most bytes of them.
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._documents: OrderedDict[str, tuple[CutDocument, int]] = OrderedDict()
        self._lock = Lock()
        self.n_bytes = 0
        """Estimated bytes of the documents that are kept."""
        self.n_found = 0
        """Documents that were kept when they were asked for."""
        self.n_cut = 0
        """Documents that were cut."""

    def __len__(self) -> int:
        """Return the number of documents that are kept."""
        return len(self._documents)

    def document(self, text: str, cut: Callable[[], tuple[CutDocument, bool]]) -> CutDocument:
        """Return a document, kept or cut.

        Args:
            cut: returns the document, and whether its text alone decided how it is cut, so that it may be kept.
        """
        with self._lock:
            kept = self._documents.get(text)
            if kept is not None:
                self._documents.move_to_end(text)
                self.n_found += 1
                return kept[0]
        document, may_be_kept = cut()
        size = DOCUMENT_BYTES + CHAR_BYTES * len(text)
        with self._lock:
            self.n_cut += 1
            if may_be_kept and size <= min(LARGEST_BYTES, self._most_bytes) and text not in self._documents:
                self._documents[text] = document, size
                self.n_bytes += size
                while len(self._documents) > self._most or self.n_bytes > self._most_bytes:
                    _, (_, freed) = self._documents.popitem(last=False)
                    self.n_bytes -= freed
        return document


KEPT: Final = KeptDocuments()
"""The documents of this process, for all its labelers."""
