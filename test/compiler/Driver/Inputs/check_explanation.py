"""Does what --explain says would help: check_explanation.py MODEL.onnx FOLDER

Each line of the table is planned by itself, with the machine that it speaks of, and takes the time that the table says.
One device more is one of the machine's own where it has one, and the built-in machine's share the same processors.
"""
import copy
import json
import re
import subprocess
import sys

MODEL, FOLDER = sys.argv[1:3]
CAPACITY, BATCH = 300000, 8


def plan(*flags):
    return subprocess.run(["harmonyc", "plan", MODEL, "--batch", str(BATCH), *flags], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def iteration(*flags):
    return re.search(r"an iteration: (\S+ \S+)", plan(*flags)).group(1)


def told(*flags):
    """What --explain says, by change."""
    table = plan("--explain", *flags).split("what would help")[1].splitlines()[1:]
    rows = [re.split(r"\s{2,}", line.strip()) for line in table if line.strip()]
    return {row[0]: row[1] for row in rows}


def write(machine, name):
    path = f"{FOLDER}/{name}.json"
    with open(path, "w") as f:
        json.dump(machine, f)
    return path


def faster(machine, host):
    """Links to the host, or the others, twice as fast, with the ports that they share."""
    machine = copy.deepcopy(machine)
    ports = set()
    for link in machine["links"]:
        if (min(link["from"], link["to"]) < 0) == host:
            link["bytesPerSecond"] *= 2
            ports.update(link.get("shares", []))
    for port in ports:
        machine["resources"][port]["bytesPerSecond"] *= 2
    return machine


# The third device is slower and larger than those that are used, and farther away.
MACHINE = {
    "schema": "harmony.machine", "version": 1, "name": "three", "resources": [{"name": "port", "bytesPerSecond": 2e9}],
    "devices": [{"name": f"device {d}", "capacity": CAPACITY + 50000 * (d == 2), "flopsPerSecond": 60e9 - 20e9 * (d == 2),
                 "bytesPerSecond": 15e9} for d in range(3)],
    "links": [{"from": a, "to": b, "bytesPerSecond": 1e9 if 2 in (a, b) else 2e9, "latencySeconds": 2e-6,
               **({"shares": [0]} if a == -1 else {})}
              for a in range(-1, 3) for b in range(-1, 3) if a != b]}

# Of the built-in machine host and device are the same cores: others update where the plan does.
alone = told("--device-memory", str(CAPACITY), "--optimizer-on", "host")
assert alone["one more device"] == iteration(
    "--device-memory", str(CAPACITY), "--devices", "2", "--optimizer-on", "host"), alone
assert alone["a tenth more memory on each device"] == iteration(
    "--device-memory", str(CAPACITY + CAPACITY // 10), "--optimizer-on", "host"), alone

used = ["--devices", "2", "--machine"]
three = write(MACHINE, "three")
two = told(*used, three)
assert two.pop("as it is") == iteration(*used, three)
larger = copy.deepcopy(MACHINE)
for device in larger["devices"]:
    device["capacity"] += CAPACITY // 10
expected = {
    "a tenth more memory on each device": iteration(*used, write(larger, "larger")),
    "links to the host twice as fast": iteration(*used, write(faster(MACHINE, host=True), "host")),
    "links between devices twice as fast": iteration(*used, write(faster(MACHINE, host=False), "between")),
    "one more device": iteration("--machine", three)}
assert two == expected, (two, expected)
