"""Protocols of everything wakelog needs from outside, one module for each subject. This package exports nothing itself.

Rule 1: a port is small and uses bytes and plain values, never classes of other ports' implementations.
Rule 2: stores are synchronous; calls that wait for a model, tool or channel are asynchronous. No port exists in both
forms.
"""
