"""An item that tests of calls answer."""

from ragtide_producers.files.items import items_of

ITEM = items_of([{"id": "q1", "question": "When was it built?", "reference_answer": "In 1889.", "year": 1889}])[0]
