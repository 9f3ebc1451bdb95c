"""Remote labelers: cache, pacing, retries, circuit breaker, spend limit and state for calls of any endpoint."""
