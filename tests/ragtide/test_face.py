import pytest
from tests.support.cases import for_each

import ragtide

CONTRACT = [
    "RagInteraction",
    "RetrievedDocument",
    "MetricEvent",
    "Estimate",
    "Alert",
    "InteractionProducer",
    "AlertSubscriber",
    "SentenceLabels",
    "ClaimLabels",
    "trace_metrics",
    "ragchecker_metrics",
    "interval",
    "confidence_sequence",
    "DriftDetector",
]


@for_each("name", [*CONTRACT, *ragtide.__all__])
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(ragtide, name) is not None
    assert name in dir(ragtide)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = ragtide.Nothing
