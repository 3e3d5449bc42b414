# Runs the models below a folder in ONNX Runtime: each has model.onnx, in_<i>.npy and out_<i>.npy, what is expected.
# One line a model: "ok NAME", or "bad NAME: reason".
import os, sys
import numpy as np
import onnx
import onnxruntime as ort

options = ort.SessionOptions()
options.log_severity_level = 4
options.intra_op_num_threads = 1


def run(folder):
    path = os.path.join(folder, "model.onnx")
    onnx.checker.check_model(path, full_check=True)
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for i, value in enumerate(session.get_inputs()):
        feeds[value.name] = np.load(os.path.join(folder, f"in_{value.name}.npy"))
    results = session.run(None, feeds)
    for i, result in enumerate(results):
        expected = np.load(os.path.join(folder, f"out_{i}.npy"))
        result = np.asarray(result)
        if result.dtype != expected.dtype:
            return f"output {i} is {result.dtype}, expected {expected.dtype}"
        if result.shape != expected.shape:
            return f"output {i} has the shape {result.shape}, expected {expected.shape}"
        if not np.allclose(result, expected, rtol=2e-4, atol=2e-5, equal_nan=True):
            return f"output {i} differs: {result.ravel()[:6]} and {expected.ravel()[:6]}"
    if os.path.exists(os.path.join(folder, f"out_{len(results)}.npy")):
        return f"only {len(results)} outputs"


for name in sorted(os.listdir(sys.argv[1])):
    try:
        problem = run(os.path.join(sys.argv[1], name))
    except Exception as e:
        problem = f"{type(e).__name__}: " + str(e).replace("\n", " ")[:500]
    print(f"bad {name}: {problem}" if problem else f"ok {name}", flush=True)
