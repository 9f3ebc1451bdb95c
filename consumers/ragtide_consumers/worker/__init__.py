"""The label worker: takes interactions off the stream, labels them, and emits metric events."""
