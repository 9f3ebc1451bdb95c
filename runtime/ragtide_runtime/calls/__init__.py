"""Calls of models and services: counts, states, prices, and the breaker."""
