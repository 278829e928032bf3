"""Programs for maintainers: the documentation site and the checks of a release. Not part of the package."""
