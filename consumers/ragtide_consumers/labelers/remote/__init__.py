"""The calls of remote labelers: cache, pacing, retries, circuit breaker, spend limit and state for any endpoint."""
