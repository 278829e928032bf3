"""`wakelog` and `python -m wakelog`: the same door, and nothing behind it but the command line."""

import sys

from wakelog.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
