"""Runs a command and fails unless it ends with an exit code: expect_exit.py CODE COMMAND..."""
import subprocess
import sys

code = subprocess.run(sys.argv[2:]).returncode
if code != int(sys.argv[1]):
    sys.exit(f"exit code {code}, expected {sys.argv[1]}")
