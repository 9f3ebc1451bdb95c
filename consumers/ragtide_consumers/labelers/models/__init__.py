"""The labeler `model`: ONNX models that run in the worker."""
