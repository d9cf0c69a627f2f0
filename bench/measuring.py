"""Runs a command and tells what it took: for the benchmarks that look at whole processes."""
import collections, os, re, resource, subprocess, sys, tempfile, time

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


class Others:
    """What other processes, and other machines on the same processors, took of this machine's processors."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        with open("/proc/stat") as file:
            user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
        tick = os.sysconf("SC_CLK_TCK")
        busy = (user + nice + system + irq + softirq + steal) / tick
        own = sum(use.ru_utime + use.ru_stime
                  for use in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
        return busy - own, busy + (idle + iowait) / tick

    def share(self):
        """Of all processors since this began, between 0 and 1. Children count as ours once they have ended."""
        others, total = (b - a for a, b in zip(self.begin, self.now()))
        return max(0.0, others / total) if total > 0 else 0.0


class Reference:
    """The same work again and again. What it takes more than at best tells how much others use of the memory and the
    caches, also those that this machine cannot see: other machines on the same host."""

    def __init__(self):
        import numpy
        self.matrix = numpy.ones((384, 384), numpy.float32)
        self.source = numpy.ones(8 << 20, numpy.float32)
        self.target = numpy.empty_like(self.source)
        self.best = float("inf")
        self.excess()

    def excess(self):
        """The part of the least time by which it takes longer now: 0 or more."""
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            self.matrix @ self.matrix
            self.target[:] = self.source
            times.append(time.perf_counter() - begin)
        seconds = sorted(times)[len(times) // 2]
        self.best = min(self.best, seconds)
        return seconds / self.best - 1


def lower_quartile(values):
    """The value that a quarter of them are not above."""
    return sorted(values)[(len(values) - 1) // 4]


def table(header, rows):
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def replace_between(path, markers, text):
    """Puts `text` into the file at `path` between two lines that stay."""
    before, rest = path.read_text().split(markers[0])
    after = rest.split(markers[1])[1]
    path.write_text(f"{before}{markers[0]}\n{text}\n{markers[1]}{after}")
