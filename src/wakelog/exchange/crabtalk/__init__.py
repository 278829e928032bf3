"""Sessions of crabtalk (crabtalk/crabtalk)."""
