"""lit configuration: text tests of every pass, dialect, tool, and whole models."""
import os
import shutil
import subprocess
import lit.formats

config.name = "harmonyc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".onnxtext", ".test"]
config.excludes = ["models", "unit", "Inputs", "corpus"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.build_dir, "test")


def has_numpy(python):
    """Whether an interpreter exists and imports numpy."""
    try:
        return not subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode
    except OSError:
        return False


# Golden models are compared by numpy, which setup.sh installs for the system's interpreter: that need not be
# the one that CMake finds first.
candidates = [shutil.which("python3"), config.python, "/usr/bin/python3"]
with_numpy = next((python for python in candidates if python and has_numpy(python)), None)
if with_numpy:
    config.python = with_numpy
    config.available_features.add("numpy")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.build_dir, "bin"), config.llvm_tools_dir, config.environment.get("PATH", "")])
config.environment["PYTHON"] = config.python
config.environment["HARMONY_MODELS"] = os.path.join(config.test_source_root, "models")
config.substitutions.append(("%models", os.path.join(config.test_source_root, "models")))
config.substitutions.append(("%root", config.source_dir))
config.substitutions.append(("%build", config.build_dir))
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%exit", f"{config.python} {config.test_source_root}/compiler/Driver/Inputs/expect_exit.py"))
for script in ("check_golden", "check_capacity"):
    config.substitutions.append(("%" + script,
                                 f"{config.python} {config.test_source_root}/e2e/{script}.py --harmonyc harmonyc"))

# Every harmony-opt of the suite also checks that its output parses back to itself.
if os.environ.get("HARMONY_CHECK_ROUNDTRIP"):
    config.substitutions.append(("harmony-opt", "harmony-opt --verify-roundtrip"))

with open("/proc/cpuinfo") as f:
    flags = next((line for line in f if line.startswith("flags")), "").split()
if "avx512f" in flags and "avx512vl" in flags and "avx512dq" in flags and "avx512bw" in flags:
    config.available_features.add("avx512")
if config.ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%cuda", os.path.dirname(os.path.dirname(config.ptxas))))
