-- Where a log ends is said by its last line, and by nothing else: an append writes one row, in one statement.
ALTER TABLE logs DROP COLUMN rows;
ALTER TABLE logs DROP COLUMN size;
