"""ONNX Runtime Training on the model file itself: a process of its own makes the artifacts for its trainer, so that
their making is counted in time and not in memory."""
import common

import pathlib, subprocess, sys, tempfile

BUFFERS = ("running_mean", "running_var", "attn.bias")


def prepare(path, folder):
    import onnx
    from onnxruntime.training import artifacts
    model = onnx.load(path)
    names = [tensor.name for tensor in model.graph.initializer]
    artifacts.generate_artifacts(model, requires_grad=[name for name in names if not name.endswith(BUFFERS)],
                                 frozen_params=[name for name in names if name.endswith(BUFFERS)],
                                 artifact_directory=folder, optimizer=artifacts.OptimType.AdamW)


def train(job, folder):
    from onnxruntime import SessionOptions
    from onnxruntime.training import api
    options = SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1
    state = api.CheckpointState.load_checkpoint(folder / "checkpoint")
    # Without the model for evaluation, which is not valid where it has batch normalisation.
    module = api.Module(folder / "training_model.onnx", state, device="cpu", session_options=options)
    optimizer = api.Optimizer(folder / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(common.OPTIMIZER["lr"])
    inputs = common.batch(job)
    values = [inputs[name] for name in module.input_names()]

    def step():
        module.train()
        loss = module(*values)
        optimizer.step()
        module.lazy_reset_grad()
        return loss

    common.report(job, step)


if len(sys.argv) == 4:
    prepare(sys.argv[2], sys.argv[3])
else:
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, __file__, "prepare", common.arguments()["path"], place], check=True)
        train(common.arguments(), pathlib.Path(place))
