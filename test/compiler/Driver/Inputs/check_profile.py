"""A plan with measured costs: other seconds than the modelled one, the same numerics key, and compute time that the
profile's tasks add up to where everything was measured."""
import json, sys

modelled, planned, costs = (json.load(open(path)) for path in sys.argv[1:4])
assert modelled["summary"]["numerics_key"] == planned["summary"]["numerics_key"] == costs["numerics_key"]
seconds = {}
for task in costs["tasks"]:
    if task["kind"] in ("forward", "backward") and not task["name"].split(".")[1] == "eval":
        seconds[task["name"]] = task["seconds"]
# Four microbatches of four samples, nothing recomputed in what bounds them from below. Layers that are equal share
# one task, so the sum over names is a lower bound.
bound = planned["summary"]["compute_bound_s"]
assert bound >= 4 * sum(seconds.values()) * 0.999, (bound, seconds)
assert planned["summary"]["compute_bound_s"] != modelled["summary"]["compute_bound_s"]
