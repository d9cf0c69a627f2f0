"""Two plan files hold the same plan: same_plan.py A.json B.json. Times depend on the machine, the rest does not."""
import json
import sys

plans = []
for path in sys.argv[1:]:
    with open(path) as f:
        plan = json.load(f)
    for key in ("summary", "seconds", "computeSeconds"):
        del plan[key]
    plans.append(plan)
assert plans[0] == plans[1], [key for key in plans[0] if plans[0][key] != plans[1].get(key)]
