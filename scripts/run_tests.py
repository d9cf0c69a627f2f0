#!/usr/bin/env python3
"""Runs the unit tests and lit tests of a build folder and adds up their counts.

    run_tests.py BUILD_DIR [lit filter]

Prints what failed and what was skipped with its reason; the last line is
'N passed, N failed, N skipped'. Exit status 1 if anything failed.
"""
import glob, json, os, subprocess, sys, tempfile


def skip_reason(output, test):
    """What a test said when it skipped itself: the lines between 'Skipped' and its end."""
    run = output.partition(f"[ RUN      ] {test}\n")[2].partition("[  SKIPPED ]")[0]
    return " ".join(run.partition("Skipped\n")[2].split()) or "disabled"


def run_gtest(exe, tally):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        p = subprocess.run([exe, f"--gtest_output=json:{report.name}"], capture_output=True, text=True)
        name = os.path.basename(exe)
        try:
            suites = json.load(open(report.name))["testsuites"]
        except (ValueError, KeyError):
            suites = []
        if not suites or (p.returncode and p.returncode != 1):
            print(f"FAIL {name}: exit status {p.returncode}\n{p.stdout[-4000:]}{p.stderr[-4000:]}")
            tally["failed"] += 1
        for suite in suites:
            for test in suite["testsuite"]:
                label = f"{name} {suite['name']}.{test['name']}"
                if test.get("failures"):
                    tally["failed"] += 1
                    print(f"FAIL {label}")
                    for failure in test["failures"]:
                        print("    " + failure["failure"].replace("\n", "\n    "))
                elif test.get("result") == "SKIPPED" or test.get("status") == "NOTRUN":
                    tally["skipped"] += 1
                    print(f"skipped {label}: {skip_reason(p.stdout, suite['name'] + '.' + test['name'])}")
                else:
                    tally["passed"] += 1


def run_lit(build, pattern, tally):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        cmd = ["/usr/lib/llvm-22/bin/lit", "-q", "-j", str(os.cpu_count()), "--time-tests" if pattern == "--time" else "-v",
               "--output", report.name, os.path.join(build, "test")]
        if pattern and pattern != "--time":
            cmd.insert(1, f"--filter={pattern}")
        p = subprocess.run(cmd, capture_output=True, text=True)
        try:
            tests = json.load(open(report.name))["tests"]
        except ValueError:
            print(p.stdout + p.stderr)
            tally["failed"] += 1
            return
    if pattern == "--time":
        for test in sorted(tests, key=lambda t: -t["elapsed"])[:20]:
            print(f"{test['elapsed']:8.2f} s  {test['name']}")
    for test in tests:
        code = test["code"]
        if code in ("PASS", "XFAIL", "FLAKYPASS"):
            tally["passed"] += 1
        elif code == "UNSUPPORTED":
            tally["skipped"] += 1
            print(f"skipped {test['name']}: {test['output'].strip().splitlines()[-1] if test['output'].strip() else 'unsupported here'}")
        elif code not in ("EXCLUDED", "SKIPPED"):
            tally["failed"] += 1
            print(f"FAIL {test['name']}\n    " + test["output"][-6000:].replace("\n", "\n    "))


def main():
    build = os.path.abspath(sys.argv[1])
    pattern = sys.argv[2] if len(sys.argv) > 2 else None
    tally = {"passed": 0, "failed": 0, "skipped": 0}
    if not pattern or pattern == "--time":
        for exe in sorted(glob.glob(os.path.join(build, "bin", "*_test"))):
            run_gtest(exe, tally)
    run_lit(build, pattern, tally)
    print(f"{tally['passed']} passed, {tally['failed']} failed, {tally['skipped']} skipped")
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
