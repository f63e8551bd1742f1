"""Parts of all attacks of scripts/campaign: a finished command with its bounds, counts, damaged bytes."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CODES = {0, 1, 2, 3, 4, 5, 6, 7}
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

# Words of commands whose output is for other programs.
DATA = {"--json", "json", "sarif", "folded"}


class Ran:
    """A finished command: its code, text, seconds and MB. Of one whose output is not text, the text is its messages."""

    def __init__(self, options, words, disk_bytes=None, signal_after=None, given=b"", program=None, is_text=True, **environment):
        def limit():
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (options.most_mb * 2 << 20,) * 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if disk_bytes is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (disk_bytes, disk_bytes))

        self.words, errors = list(map(str, words)), tempfile.TemporaryFile()
        environment = {**os.environ, "STALLMAP_CACHE": "off", "RUST_BACKTRACE": "0", **environment}
        begin = time.monotonic()
        process = subprocess.Popen(
            [program or options.stallmap, *self.words], stdout=subprocess.PIPE, preexec_fn=limit, env=environment,
            stderr=subprocess.STDOUT if is_text else errors, stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        )
        parts = []
        if given:
            threading.Thread(target=feed, args=(process.stdin, given)).start()
        reader = threading.Thread(target=lambda: parts.append(process.stdout.read()))
        reader.start()
        self.is_hanging, self.usage, status = False, None, None
        while status is None:
            done, state, usage = os.wait4(process.pid, os.WNOHANG)
            age = time.monotonic() - begin
            if done:
                status, self.usage = state, usage
            elif signal_after is not None and age > signal_after:
                process.send_signal(signal.SIGINT)
                signal_after = None
            elif age > options.most_seconds:
                self.is_hanging = True
                process.kill()
            time.sleep(0.002)
        process.returncode = self.code = os.waitstatus_to_exitcode(status)
        reader.join()
        errors.seek(0)
        self.content = parts[0]
        self.text = (self.content if is_text else errors.read()).decode(errors="replace")
        self.seconds, self.mb = time.monotonic() - begin, self.usage.ru_maxrss // 1024

    def problem(self, options, codes=CODES):
        """The reason why the command failed the campaign, or None. Data for other programs goes to a pipe as it is."""
        if self.is_hanging:
            return f"more than {options.most_seconds} s"
        if self.mb > options.most_mb:
            return f"{self.mb} MB"
        if "panicked" in self.text or self.code == 101:
            return "a panic"
        if self.code not in codes:
            return f"exit code {self.code}"
        found = None if DATA & set(self.words) else STEERS.search(self.text)
        return f"the character {found.group()!r}" if found else None


class Attack:
    """Counts of one kind of attack."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.tries, self.failures, self.mb, self.seconds = 0, 0, 0, 0.0
        self.texts = []
        # When its time is over.
        self.end = float("inf")

    def note(self, ran, problem, files=()):
        self.tries += 1
        self.mb, self.seconds = max(self.mb, ran.mb), max(self.seconds, ran.seconds)
        if not problem:
            return
        self.failures += 1
        place = ROOT / "target/campaign" / f"{self.name}-{self.options.seed}-{self.failures}"
        place.mkdir(parents=True, exist_ok=True)
        # Pipes stay pipes, links stay links, and holes stay holes.
        for file in filter(os.path.exists, files):
            subprocess.run(["cp", "-a", "--sparse=always", file, place], check=True)
        (place / "command.txt").write_text(f"stallmap {' '.join(ran.words)}\n{problem}\n{ran.text}")
        self.texts.append(f"{self.name}: {problem}: stallmap {' '.join(ran.words)}: {place}")


def feed(pipe, content):
    """Writes to a process that may end before it has read all."""
    try:
        pipe.write(content)
        pipe.close()
    except OSError:
        pass


def flipped(content, chance, most=24):
    """The bytes with some of them changed, near each other or not."""
    content = bytearray(content)
    for _ in range(chance.randint(1, most)):
        content[chance.randrange(len(content))] = chance.choice([0, 255, 127, 128, chance.randrange(256)])
    return bytes(content)
