"""``python -m tests.campaigns fuzz`` and ``python -m tests.campaigns kill``."""

import argparse
import sys

from .case import FAULTS, KINDS
from .limits import LIMITS, Limits


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns")
    commands = parser.add_subparsers(dest="command", required=True)
    fuzz = commands.add_parser("fuzz", help="random cases of every kind, or of one")
    fuzz.add_argument("--minutes", type=float, default=5.0)
    fuzz.add_argument("--seed", type=int, default=0)
    fuzz.add_argument("--kind", choices=(*KINDS, *FAULTS))
    fuzz.add_argument("--case", type=int, help="only this one; needs --kind")
    fuzz.add_argument("--seconds", type=float, default=LIMITS.seconds, help="the limit of one case")
    kill = commands.add_parser("kill", help="runs that are interrupted at random moments, and go on")
    kill.add_argument("--kills", type=int, default=10, help="of each signal, for each run")
    kill.add_argument("--seed", type=int, default=0)
    kill.add_argument("--run", action="append", help="only this run; may be given several times")
    work = commands.add_parser("work")
    for name, kind in (
        ("kind", str),
        ("seed", int),
        ("first", int),
        ("count", int),
        ("seconds", float),
        ("pipe", int),
    ):
        work.add_argument(name, type=kind)
    work.add_argument("limits", type=float, nargs=3)
    given = parser.parse_args()
    if given.command == "work":
        from .worker import work as work_on

        seconds, size, start = given.limits
        limits = Limits(seconds, int(size), start)
        work_on(given.kind, given.seed, given.first, given.count, given.seconds, given.pipe, limits)
        return 0
    if given.command == "kill":
        from .kill import interrupt_all

        return 1 if interrupt_all(given.kills, given.seed, say, given.run) else 0
    return run_fuzz(given, parser)


def run_fuzz(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from .driver import run_kind, run_kinds

    limits = Limits(seconds=given.seconds)
    if given.case is None:
        kinds = KINDS if given.kind is None else (given.kind,)
        return (
            1
            if any(each.failures for each in run_kinds(kinds, given.seed, 60 * given.minutes, say, limits))
            else 0
        )
    if given.kind is None:
        parser.error("--case needs --kind")
    tally = run_kind(given.kind, given.seed, 3600.0, say, limits, given.case, 1)
    say(f"{given.kind}: {len(tally.failures)} failures")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
