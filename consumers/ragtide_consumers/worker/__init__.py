"""The label worker: reads interactions from the stream, labels them, and emits metric events."""
