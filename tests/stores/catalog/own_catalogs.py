"""Rigs of stores whose catalog is in their own database, with access to its tables."""

from tests.stores.catalog.test_catalogs import Cataloged
from wakelog.stores.catalog.index_file import IndexTables
from wakelog.testing.catalog_rig import CatalogFixture


class InSqlite(Cataloged):
    def run(self, words):
        with self.rig.again().file.writing() as db:
            return db.execute(words.format(s="")).fetchall()

    def forget_schema(self):
        """Remove the catalog's schema, as a wakelog without catalogs would leave the store."""
        self.run("ALTER TABLE logs ADD COLUMN rows INTEGER")
        self.run("ALTER TABLE logs ADD COLUMN size INTEGER")
        self.run("PRAGMA user_version = 1")


class InPostgres(Cataloged):
    def run(self, words):
        return self.rig.run(words.format(s="wakelog."))

    def forget_schema(self):
        self.run("DELETE FROM wakelog.schema_version WHERE version > 1")


def again(shelf):
    """The same store in another process."""
    return CatalogFixture(Cataloged(shelf.rig, shelf.rig.url))


def is_own(shelf):
    """Whether the answers come from the database, and not from memory."""
    return not isinstance(shelf.catalog._tables, IndexTables)
