"""The probability with which a sender kept a trace."""

import re
from typing import Final

TAIL_SAMPLING: Final = "tailsampling."
"""Beginning of the attributes that the tail sampler of the OpenTelemetry Collector writes on the scope of spans that it
keeps, if it records its policies."""

_THRESHOLD: Final = re.compile(r"(?:^|[,;\s])ot=(?:[^,]{0,200};)?th:([0-9a-f]{1,14})(?:[;,\s]|$)")


def sampling_probability(trace_state: str) -> float | None:
    """Return the probability in `ot=th:...` of a tracestate; None if it is not told.

    The threshold is 56 bits in hexadecimal without the zeros at its end. A trace is kept if its random number is not
    below the threshold.

    Source: OpenTelemetry specification, "TraceState: Probability Sampling", rejection threshold.
    """
    match = _THRESHOLD.search(trace_state[:1024])
    if match is None:
        return None
    return 1.0 - int(match[1].ljust(14, "0"), 16) / (1 << 56)
