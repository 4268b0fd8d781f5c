"""The command line. Needs the extra ``cli``."""

import sys


def main() -> None:
    """Run ``papilio`` with the arguments of this process."""
    try:
        from .app import run
    except ImportError as error:
        sys.exit(f"papilio: the command line needs {error.name}: pip install typer rich matplotlib")
    except KeyboardInterrupt:
        sys.stderr.write("papilio: stopped; nothing was written\n")
        sys.exit(130)
    sys.exit(run())
