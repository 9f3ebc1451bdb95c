"""Traces of OpenTelemetry become RAG interactions: the rule is pure, and knows nothing of HTTP and Redis."""
