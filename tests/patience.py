"""How long tests wait for something before they call it stuck. No result depends on it: other programs may be busy."""

PATIENCE_S = 600
