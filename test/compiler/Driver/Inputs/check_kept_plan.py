"""Plans of several microbatch sizes are kept by --keep-numerics: their keys do not say which layer has which, so where
the search finds none, the plan itself is taken, and is refused where the machine does not hold it.

    check_kept_plan.py MODEL FOLDER"""
import json, re, subprocess, sys

model, folder = sys.argv[1:]
plan = ["harmonyc", "plan", model, "--batch", "8"]


def run(*flags, code=0):
    process = subprocess.run([*plan, *flags], capture_output=True, text=True)
    assert process.returncode == code, (flags, process.returncode, process.stderr)
    return process


drawn, kept = folder + "/drawn.json", folder + "/kept.json"
for seed in range(100):
    run("--random-plan", str(seed), "--plan-out", drawn)
    document = json.load(open(drawn))
    key = document["summary"]["numerics_key"]
    if len({phase["microbatch"] for phase in document["phases"]}) < 2 or not re.search("-u[0-9]+/|,|various", key):
        continue
    note = run("--keep-numerics", drawn, "--plan-out", kept).stderr
    again = json.load(open(kept))
    assert again["summary"]["numerics_key"] == key, seed
    if "no plan that was found has the numerics key" not in note:
        continue
    assert again["phases"] == document["phases"], seed
    small = str(max(document["summary"]["peak_bytes"]) - 64)
    error = run("--keep-numerics", drawn, "--device-memory", small, code=1).stderr
    assert "drawn.json: is no plan for this model" in error and "capacity" in error, error
    break
else:
    sys.exit("no random plan has several sizes and a key of its own")
