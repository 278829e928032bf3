"""The version of wakelog, and the name it writes into the headers of sessions it creates."""

VERSION = "0.2.0"
APP = f"wakelog/{VERSION}"
