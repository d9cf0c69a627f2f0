"""Checks a trace (docs/Runtime.md) and its tracks: check_trace.py TRACE.json DEVICES."""
import json
import sys

with open(sys.argv[1]) as f:
    trace = json.load(f)
devices = int(sys.argv[2])
assert trace["otherData"]["virtual"] is True
names = {}
spans = {}
for event in trace["traceEvents"]:
    if event["ph"] == "M":
        names[event["name"], event["pid"], event["tid"]] = event["args"]["name"]
        continue
    assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0, event
    assert event["cat"] in ("compute", "update", "swap_in", "swap_out", "peer", "input", "output"), event
    assert set(event["args"]) == {"event", "iteration", "step", "bytes"}, event
    spans.setdefault((event["pid"], event["tid"]), []).append(event)
# Devices are processes 1 to N, the host is N + 1; every track with spans has a name, and every device computes.
for device in range(devices):
    assert names["process_name", device + 1, 0] == f"device {device}"
    computes = [track for track in spans if names["thread_name", *track] == f"d{device}.compute"]
    assert computes and any(event["dur"] > 0 for event in spans[computes[0]]), device
assert names["process_name", devices + 1, 0] == "host"
# A queue does one thing at a time.
for track, events in spans.items():
    assert ("thread_name", *track) in names, track
    end = 0
    for event in sorted(events, key=lambda event: (event["ts"], event["dur"])):
        assert event["ts"] >= end - 1e-3, (names["thread_name", *track], event)
        end = event["ts"] + event["dur"]
