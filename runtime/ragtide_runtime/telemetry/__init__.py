"""Logs, traces, Prometheus metrics and health checks of a role."""
