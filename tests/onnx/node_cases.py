# Writes onnx.backend.test's node cases into a folder: NAME/model.onnx, NAME/test_data_set_0/input_0.pb, ... Cases with inputs
# or outputs that are no tensors are left out.
import os, sys
import numpy as np

np.random.seed(0)
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests


def write(path, value, name):
    proto = value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), name)
    with open(path, "wb") as f:
        f.write(proto.SerializeToString())


for case in load_node_model_tests():
    graph = case.model.graph
    if not all(v.type.HasField("tensor_type") for v in list(graph.input) + list(graph.output)):
        continue
    inputs, outputs = case.data_sets[0]
    folder = os.path.join(sys.argv[1], case.name)
    os.makedirs(os.path.join(folder, "test_data_set_0"), exist_ok=True)
    try:
        for i, v in enumerate(inputs):
            write(os.path.join(folder, "test_data_set_0", f"input_{i}.pb"), v, graph.input[i].name)
        for i, v in enumerate(outputs):
            write(os.path.join(folder, "test_data_set_0", f"output_{i}.pb"), v, graph.output[i].name)
    except Exception:  # strings and other things without a tensor form
        continue
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(case.model.SerializeToString())
