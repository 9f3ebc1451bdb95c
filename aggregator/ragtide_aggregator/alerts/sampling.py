"""The sentence about sampled traffic in an alert."""

from typing import Final

MIXED_SENTENCE: Final = (
    " Interactions were kept with different sampling probabilities, and a rule takes them as they were kept: a change"
    " of the sampling may move its mean. The estimate of the metric is weighted."
)
"""Added to alerts of keys whose interactions were kept with different probabilities."""
