"""Test support for wakelog and for code that uses or extends it. Only tests may import this package.

`builders` has a deterministic clock and a builder for sessions, `crashing_store` a store whose process dies at a
chosen write. Conformance suites to subclass: `store_suite.StoreSuite`, `blob_suite.BlobSuite`,
`catalog_suite.CatalogSuite`, `channel_suite.ChannelSuite`.
"""
