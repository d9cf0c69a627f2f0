"""Checks the summary of a plan file and that plan prints the same: check_summary.py PLAN.json PRINTED."""
import json
import re
import sys

with open(sys.argv[1]) as f:
    plan = json.load(f)
with open(sys.argv[2]) as f:
    printed = f.read()
summary = plan["summary"]

for key in ("iteration_s", "samples_per_s", "compute_bound_s"):
    assert isinstance(summary[key], float) and summary[key] > 0, (key, summary.get(key))
for key in ("training_state_bytes", "min_device_bytes", "swap_in_bytes", "swap_out_bytes", "peer_bytes", "host_bytes",
            "input_bytes", "bound_bytes"):
    assert isinstance(summary[key], int) and summary[key] >= 0, (key, summary.get(key))
assert isinstance(summary["peak_bytes"], list) and len(summary["peak_bytes"]) == 1, summary["peak_bytes"]
assert re.fullmatch(r"avx(2|512)-dnnl[0-9]+-D[0-9]+-u[0-9/,u]+-[0-9a-f]{16}", summary["numerics_key"])

assert abs(summary["samples_per_s"] * summary["iteration_s"] - plan["batch"]) < 1e-6 * plan["batch"]
assert summary["compute_bound_s"] <= summary["iteration_s"] * (1 + 1e-9)
assert 0 < summary["bound_s"] <= summary["bound_of_groups_s"] <= summary["iteration_s"] * (1 + 1e-9)
assert summary["min_device_bytes"] <= summary["peak_bytes"][0] <= plan["peakBytes"][0]
assert summary["peer_bytes"] == 0
assert re.search(f"least device memory: {summary['min_device_bytes']} bytes; largest layer '.+': {summary['bound_bytes']}\n", printed)
assert f"({summary['peak_bytes'][0]} bytes)" in printed
assert f"numerics key: {summary['numerics_key']}" in printed
