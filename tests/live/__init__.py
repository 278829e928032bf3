"""Real models, asked once each: `python -m tests.live [PROVIDER:NAME …]`. It needs keys, and is no test of CI."""
