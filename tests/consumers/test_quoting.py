"""The labeler `quoting`: built by its name, with its kind, what it is fit for, and no calls."""

from ragtide import RagInteraction, RetrievedDocument
from ragtide_consumers.labelers.published import labelers_of, published_metrics
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.fitness import fit_for


async def test_sentences_that_a_document_has_are_supported() -> None:
    text = "It was built in 1889. It is of iron."
    documents = (RetrievedDocument(text="The tower is famous. It was built in 1889."),)
    interaction = RagInteraction(pipeline="p", question="When?", documents=documents, response=text)
    settings = Settings(labeler="quoting")
    async with labeler_of(settings, None) as labeler:
        labeling = await labeler.label(interaction)
    assert labeling.scores == {"trace.adherence": 0.0, "trace.supported_fraction": 0.5}
    assert fit_for("quoting", "trace.adherence") == ("trend",)
    assert published_metrics(settings) == frozenset(labeling.scores)
    assert "quoting" in labelers_of("trace.adherence")
