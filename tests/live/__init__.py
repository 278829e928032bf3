"""One request to each real model: `python -m tests.live [PROVIDER:NAME …]`. It needs keys, and is not part of CI."""
