"""What a labeler that asks a remote service needs: a cache, pacing, a circuit breaker, a spend limit, and its state."""
