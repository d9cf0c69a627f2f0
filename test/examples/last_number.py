"""last_number.py FILE WORD LOW HIGH: the number behind the last WORD of an evaluation line lies in [LOW, HIGH]."""
import re, sys

path, word, low, high = sys.argv[1:]
numbers = [float(m.group(1)) for line in open(path) if "evaluation" in line
           for m in [re.search(rf"{word} ([0-9.]+)", line)] if m]
print(numbers)
sys.exit(0 if numbers and float(low) <= numbers[-1] <= float(high) else 1)
