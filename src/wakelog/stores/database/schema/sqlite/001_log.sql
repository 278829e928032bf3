-- One row a session: its names, where its log ends, and the last lease. It is the append lock.
CREATE TABLE logs (
  key     INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  name    TEXT NOT NULL UNIQUE,
  stem    TEXT NOT NULL,
  number  INTEGER NOT NULL,
  rows    INTEGER NOT NULL,
  size    INTEGER NOT NULL,
  holder  TEXT,
  fence   INTEGER,
  expires REAL,
  boot    TEXT,
  pids    TEXT,
  pid     INTEGER,
  born    TEXT
) STRICT;
CREATE INDEX logs_by_number ON logs (stem, number);

-- The logs: `bytes` of all rows of a session, by `number`, are its log. The other columns are derived from them.
-- Rows of many sessions lie in the order they came in, so that those of one commit share pages.
CREATE TABLE lines (
  key     INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  number  INTEGER NOT NULL,
  size    INTEGER NOT NULL,
  seq     INTEGER,
  id      TEXT,
  parent  TEXT,
  type    TEXT,
  time_ms INTEGER,
  bytes   BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX lines_by_number ON lines (session, number);
-- Where every row is an entry, seq is number - 1 and needs no index of its own.
CREATE UNIQUE INDEX lines_by_seq ON lines (session, seq) WHERE seq <> number - 1;
-- Ids grow with time: the newest of all sessions stand side by side.
CREATE UNIQUE INDEX lines_by_id ON lines (id, session);

-- Replies under way, a piece a row. Removed when the reply stands in the log.
CREATE TABLE journals (
  key     INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  reply   TEXT NOT NULL,
  bytes   BLOB NOT NULL
) STRICT;
CREATE INDEX journals_by_reply ON journals (session, reply);

-- What is too large for a line. `put_s`: when it was last put, in seconds since 1970.
CREATE TABLE blobs (
  digest TEXT PRIMARY KEY,
  put_s  REAL NOT NULL,
  bytes  BLOB NOT NULL
) STRICT;
