"""Checks the picture of a plan: check_picture.py PICTURE.svg PLAN.json MACHINE_CAPACITY...

It is XML; every queue of the plan has a row; no bar lies outside of the plot; the line of the highest address reaches
the peak of each device; no two texts overlap.
"""
import json
import re
import sys
import xml.etree.ElementTree as ElementTree

LEFT, RIGHT, EDGE = 150, 1580, 0.15
SIZES = {"h": 17, "d": 12, "n": 9, "w": 9}

root = ElementTree.parse(sys.argv[1]).getroot()
with open(sys.argv[2]) as f:
    plan = json.load(f)
capacities = [int(text) for text in sys.argv[3:]]
name = lambda element: element.tag.split("}")[1]
groups = {element.get("id"): element for element in root.iter() if name(element) == "g" and element.get("id")}
width, height = float(root.get("width")), float(root.get("height"))

bars = 0
for q, queue in enumerate(plan["queues"]):
    row = groups[f"queue{q}"]
    back = next(e for e in row if e.get("class") == "back")
    top, bottom = float(back.get("y")), float(back.get("y")) + float(back.get("height"))
    for element in row:
        if name(element) == "rect":
            boxes = [tuple(float(element.get(key)) for key in ("x", "y", "width", "height"))]
        elif name(element) == "path":
            boxes = [tuple(map(float, box)) for box in
                     re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z", element.get("d"))]
            assert boxes, element.get("d")
        else:
            continue
        for x, y, w, h in boxes:
            assert w > 0 and LEFT - EDGE <= x and x + w <= RIGHT + EDGE, (q, x, w)
            assert top - EDGE <= y and y + h <= bottom + EDGE, (q, y, h)
            bars += element is not back
assert bars > 10, bars

for device, (peak, capacity) in enumerate(zip(plan["peakBytes"], capacities)):
    memory = groups[f"memory{device}"]
    back = next(e for e in memory if e.get("class") == "back")
    top, tall = float(back.get("y")), float(back.get("height"))
    line = next(e for e in memory if e.get("class") == "highest")
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    assert points[0][0] == LEFT and points[-1][0] == RIGHT
    assert all(a[0] <= b[0] for a, b in zip(points, points[1:]))
    scale = max(capacity, peak) if capacity <= 3 * peak else peak
    reached = (top + tall - min(y for _, y in points)) / tall * scale
    assert abs(reached - peak) <= 0.002 * scale, (device, reached, peak)

texts = []
for element in root.iter():
    if name(element) != "text" or not element.text:
        continue
    classes = (element.get("class") or "").split()
    size = next((SIZES[c] for c in classes if c in SIZES), 11)
    x, y, wide = float(element.get("x")), float(element.get("y")), 0.5 * size * len(element.text)
    x -= {"middle": wide / 2, "end": wide, None: 0}[element.get("text-anchor")]
    assert 0 <= x and x + wide <= width and size <= y <= height, element.text
    texts.append((x, y - 0.7 * size, x + wide, y, element.text))
for i, a in enumerate(texts):
    for b in texts[:i]:
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
print(bars, "bars,", len(texts), "texts")
