-- The catalog: what lists and searches answer from. All of it is derived from the logs: with an empty `sessions`, whoever
-- asks next builds it anew. `version` says what is kept and how; where it is not the reader's, that happens too.
CREATE TABLE catalog (version INTEGER NOT NULL);
INSERT INTO catalog VALUES (0);

-- One row a session: which state of its log was read, what lists filter and sort by, and the row itself as JSON.
CREATE TABLE sessions (
  key        INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  size       INTEGER NOT NULL,
  changed    INTEGER NOT NULL,
  id         TEXT NOT NULL,
  agent      TEXT NOT NULL,
  sender     TEXT NOT NULL,
  cwd        TEXT NOT NULL,
  origin     TEXT,
  archived   INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  damage     INTEGER NOT NULL,
  places     INTEGER NOT NULL,
  state      TEXT NOT NULL,
  empty      INTEGER NOT NULL,
  row        BLOB NOT NULL
);
CREATE INDEX sessions_seen ON sessions (name, size, changed);
CREATE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_by_time ON sessions (updated_ms DESC, name);
CREATE INDEX sessions_by_origin ON sessions (origin);

-- From where a log is read on when it has grown.
CREATE TABLE bookmarks (key INTEGER PRIMARY KEY, bookmark BLOB NOT NULL);

-- The entries that have words, at their places in the log; their text is in `words`, under the same rowid.
CREATE TABLE entries (
  rowid     INTEGER PRIMARY KEY,
  session   INTEGER NOT NULL,
  place     INTEGER NOT NULL,
  id        TEXT NOT NULL,
  type      TEXT NOT NULL,
  tools     TEXT NOT NULL,
  timestamp TEXT NOT NULL,
  time_ms   INTEGER NOT NULL,
  mark      INTEGER NOT NULL,
  seq       INTEGER
);
CREATE UNIQUE INDEX entries_by_place ON entries (session, place);
CREATE INDEX entries_by_time ON entries (time_ms);
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61');
