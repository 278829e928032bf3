"""The version of this wakelog, and how it names itself in the logs it begins."""

VERSION = "0.1.0"
APP = f"wakelog/{VERSION}"
