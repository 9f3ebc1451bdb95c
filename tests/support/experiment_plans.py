"""A plan of an experiment, and evidence of its race."""

from ragtide_schemas.experiments import Config, Evidence, Plan


def plan(count: int = 3, *, size: int = 20, **more: object) -> Plan:
    fields = {
        "run": "e",
        "target": "rag:answer",
        "data": "there",
        "data_digest": "d",
        "order_digest": "o",
        "population_size": size,
        "configs": [Config(name=f"c{number}", parameters={"k": number}) for number in range(count)],
        "metric": "trace.adherence",
        "shards": min(8, size),
        **more,
    }
    return Plan.model_validate(fields)


EVIDENCE = Evidence(by="c0", n=5, item=5, difference=0.3, lower=0.1, upper=0.5, e_value=99, alpha=0.02, margin=0.02)
