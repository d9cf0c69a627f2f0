"""What benchmarks have in common: runs of whole processes, measured machines, tables in documents."""
import collections, json, os, re, resource, subprocess, sys, tempfile, time

Run = collections.namedtuple("Run", "output wall processor resident anonymous")


def run(command, environment=None, interval=0.01):
    """The command's output, its wall and processor time in seconds, and the most bytes that were resident, all of them
    and those of no file. Memory is sampled every `interval` seconds. Ends this script where the command fails.

    The peak that wait4 gives would count the memory of this process, which the child shares up to exec.
    """
    command = [str(part) for part in command]
    peaks = {"VmHWM": 0, "RssAnon": 0}
    with tempfile.TemporaryFile() as output:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                   env={**os.environ, **(environment or {})})
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            try:
                with open(f"/proc/{process.pid}/status") as file:
                    text = file.read()
            except OSError:
                text = ""
            for name in peaks:
                found = re.search(rf"{name}:\s+(\d+) kB", text)
                if found:
                    peaks[name] = max(peaks[name], int(found[1]) * 1024)
            time.sleep(interval)
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode:
        sys.exit(f"{' '.join(command)}\nends with {process.returncode}\n{text[-4000:]}")
    return Run(text, wall, usage.ru_utime + usage.ru_stime, peaks["VmHWM"], peaks["RssAnon"])


def best(documents, key=""):
    """Of each rate and time of alike documents the best; all else is that of the first."""
    first = documents[0]
    if isinstance(first, dict):
        return {name: best([document[name] for document in documents], name) for name in first}
    if isinstance(first, list):
        return [best(list(parts), key) for parts in zip(*documents)]
    return max(documents) if key.endswith("PerSecond") else min(documents) if key.endswith("Seconds") else first


def measure_machine(harmonyc, path, threads, times=3):
    """`harmonyc machine` several times, the best of each figure as the file at `path`: what the machine does while others
    leave it alone, on hosts that it shares with machines that it does not see."""
    measured = []
    for _ in range(times):
        print(run([harmonyc, "machine", "-o", path, "--threads", threads]).output, flush=True, file=sys.stderr)
        with open(path) as file:
            measured.append(json.load(file))
    with open(path, "w") as file:
        json.dump(best(measured), file)


def table(header, rows):
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def replace_between(path, markers, text):
    """Puts `text` into the file at `path` between two lines that stay."""
    before, rest = path.read_text().split(markers[0])
    after = rest.split(markers[1])[1]
    path.write_text(f"{before}{markers[0]}\n{text}\n{markers[1]}{after}")
