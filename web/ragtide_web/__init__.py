"""The HTTP service: traces, interactions and feedback come in, estimates and alerts go out."""
