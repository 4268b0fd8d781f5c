"""``papilio`` as a person runs it: in a process of its own, with and without a terminal."""

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
COMMAND = BIN / "papilio"


def environment():
    return os.environ | {"COLUMNS": "100", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


def run(*arguments, cwd, **variables):
    """A process whose streams are not a terminal."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env=environment() | variables
    )


class OnTerminal:
    """A process whose standard error is a terminal; its standard output is kept apart."""

    def __init__(self, *arguments, cwd):
        import pty  # not on Windows

        self._screen, inside = pty.openpty()
        self.process = subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            stdin=inside,
            stdout=subprocess.PIPE,
            stderr=inside,
            cwd=cwd,
            env=environment() | {"TERM": "xterm"},
            start_new_session=True,
        )
        os.close(inside)
        self.shown = ""

    def wait_for(self, pattern):
        """Read until ``pattern`` is on the screen."""
        while not re.search(pattern, self.shown):
            is_running = self.process.poll() is None
            assert self._read(0.2) or is_running, f"ended without {pattern!r}: {self.shown}"

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def end(self):
        """The exit code, after all output was read: also what was written just before the end."""
        while self.process.poll() is None:
            self._read(0.1)
        while self._read(0):
            pass
        os.close(self._screen)
        self.output = self.process.stdout.read().decode()
        self.process.stdout.close()
        return self.process.wait()

    def last_line(self):
        """What stands on the screen at the end, without the codes that move the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown).replace("\r", "\n").strip().splitlines()[-1]

    def _read(self, seconds):
        try:
            if not select.select([self._screen], [], [], seconds)[0]:
                return False
            part = os.read(self._screen, 65536).decode(errors="replace")
        except OSError:  # the other end is closed
            return False
        self.shown += part
        return bool(part)
