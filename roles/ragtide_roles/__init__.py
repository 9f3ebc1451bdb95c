"""The roles of a deployment as coroutines: worker, aggregator and recorder, each built from the settings."""
