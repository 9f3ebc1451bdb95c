"""A model with weights of eight bits loads as it is."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tests.consumers.models.small_models import write
from tests.consumers.models.test_model_labeler import TWO, scores


@pytest.mark.heavy
async def test_a_model_of_eight_bits_gives_nearly_the_same(tmp_path: Path) -> None:
    folder = write(tmp_path / "small")
    plain = await scores(folder, TWO, publish="probabilities")
    model = onnx.load(str(folder / "model.onnx"))
    # A layer that quantization changes: the same numbers times a matrix of ones on its diagonal.
    for node in model.graph.node:
        if node.output[0] == "logits":
            node.output[0] = "wide"
    model.graph.initializer.append(numpy_helper.from_array(np.eye(2, dtype=np.float32), "eye"))
    model.graph.node.append(helper.make_node("MatMul", ["wide", "eye"], ["logits"]))
    onnx.save(model, str(tmp_path / "wide.onnx"))
    quantize_dynamic(tmp_path / "wide.onnx", folder / "model_int8.onnx", weight_type=QuantType.QInt8)
    kinds = {one.op_type for one in onnx.load(str(folder / "model_int8.onnx")).graph.node}
    assert "MatMulInteger" in kinds
    found = await scores(folder, TWO, publish="probabilities", support_file="model_int8.onnx")
    assert found == pytest.approx(plain, abs=0.03)
