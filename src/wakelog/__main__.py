"""Entry point of `wakelog` and `python -m wakelog`: runs the command line."""

import sys

from wakelog.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
