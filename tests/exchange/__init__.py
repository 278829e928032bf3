"""Tests of the other shapes of a session."""
