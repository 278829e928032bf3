"""Test helpers for wakelog and for code that uses or extends it: a deterministic clock, builders for sessions, and
conformance suites for stores, catalogs, blobs and channels. Only tests may import this package.
"""
