"""Limits on the content of a stream entry: an entry beyond a limit is rejected with a reason."""

from datetime import UTC, datetime
from typing import Final

ENTRY_MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one entry's JSON."""

DOCUMENT_TEXT_MAX_CHARS: Final = 1_000_000
"""Characters of one retrieved document."""

DOCUMENTS_MAX: Final = 500
"""Retrieved documents of one interaction."""

STEPS_MAX: Final = 64
"""Steps of one interaction: calls of tools and retrieval steps together."""

ROUNDS_MAX: Final = 64
"""Rounds of the calls of one interaction."""

QUESTION_MAX_CHARS: Final = 100_000
"""Characters of the question."""

RESPONSE_MAX_CHARS: Final = 500_000
"""Characters of the response, and of the reference answer."""

HISTORY_TURNS_MAX: Final = 20
"""Earlier turns of one interaction."""

HISTORY_MAX_CHARS: Final = 100_000
"""Characters of all earlier turns of one interaction together."""

NAME_MAX_CHARS: Final = 200
"""Characters of an id or a name: interaction, pipeline, document, segment, run, source, metric, labeler."""

SEGMENTS_MAX: Final = 16
"""Segments of one interaction; each value of each segment gets estimates of its own."""

COVARIATES_MAX: Final = 16
"""Covariates of one interaction."""

GOLD_SCORES_MAX: Final = 100
"""Gold scores of one interaction."""

METADATA_MAX_BYTES: Final = 64 * 1024
"""Bytes of the JSON of one metadata object."""

TIME_MIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest time of an entry."""

TIME_MAX: Final = datetime(2200, 1, 1, tzinfo=UTC)
"""The latest time of an entry."""

KEPT_BYTES: Final = 64 * 1024
"""Stored bytes of a payload that is larger than an entry may be."""

DETAIL_MAX_CHARS: Final = 4000
"""Characters of a dead letter's detail, because a labeler's error may be a whole page."""

LATENCY_MAX_S: Final = 86_400.0
"""Seconds of labeling one interaction, or of one call of an experiment."""

COST_MAX_USD: Final = 10_000.0
"""US dollars of one interaction, or of one call of an experiment."""

TOKENS_MAX: Final = 1_000_000_000
"""Tokens of all calls about one interaction, sent or answered."""

REPLY_TOKENS_MAX: Final = 10_000_000
"""Tokens that one reply of a judge reports; a higher count is an error, and is not counted."""

COUNTER_MAX: Final = 1_000_000_000_000
"""The highest count, such as a counter of a labeler or the size of a run."""

VALUE_MAX: Final = 1e15
"""The largest score and gold score; the lowest is its negative."""

PROBABILITY_MIN: Final = 1e-9
"""The lowest probability of being chosen; its inverse is a weight."""

RUN_LENGTH_MAX: Final = 1e100
"""The largest `run_length` of a rule."""

EVALUATORS_MAX: Final = 16
"""Most evaluators that score one interaction."""
