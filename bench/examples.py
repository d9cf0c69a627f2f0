#!/usr/bin/env python3
"""Compares the plans that the documentation shows with what harmonyc says.

    bench/examples.py [--harmonyc build/bin/harmonyc] [--write]

Every `$ harmonyc plan ...` of an indented block is run from the repository's root; what follows it, up to an empty line
or the next command, is its output. Ends with 1 and the differences where one is another; --write puts the new one in its
place. Plans, with their times, are the same on all machines of one instruction set: the documentation has AVX-512.
"""
import argparse, difflib, pathlib, re, shlex, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = re.compile(r"^    \$ (harmonyc plan .*)\n((?:    (?!\$ ).*\n)*)", re.M)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--harmonyc", type=pathlib.Path, default=ROOT / "build/bin/harmonyc")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    harmonyc = arguments.harmonyc.resolve()
    differences = []

    def renew(found):
        command, shown = found[1], found[2]
        done = subprocess.run([harmonyc, *shlex.split(command)[1:]], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{command}\nends with {done.returncode}\n{done.stderr}")
        said = "".join(f"    {line}\n" for line in done.stdout.splitlines())
        differences.extend(difflib.unified_diff(shown.splitlines(), said.splitlines(), str(path), command, "", "", 1, ""))
        return f"    $ {command}\n{said}"

    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text()
        renewed = EXAMPLE.sub(renew, text)
        if arguments.write and renewed != text:
            path.write_text(renewed)
    print(*differences, sep="\n")
    if differences and not arguments.write:
        sys.exit(1)


if __name__ == "__main__":
    main()
