"""What holds for all tests: in CI the random ones draw the same examples every time; at home they explore."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, print_blob=True)
settings.register_profile("home", print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")
