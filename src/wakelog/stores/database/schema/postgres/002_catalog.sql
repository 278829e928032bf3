-- The catalog: what lists and searches answer from. All of it is derived from the logs: with an empty `sessions`, whoever
-- asks next builds it anew. `version` says what is kept and how; where it is not the reader's, that happens too.
CREATE TABLE wakelog.catalog (version bigint NOT NULL);
INSERT INTO wakelog.catalog VALUES (0);

-- One row a session: which state of its log was read, what lists filter and sort by, the row itself as JSON, and from
-- where its log is read on when it has grown.
CREATE TABLE wakelog.sessions (
  name       text COLLATE "C" PRIMARY KEY,
  size       bigint NOT NULL,
  changed    bigint NOT NULL,
  id         text COLLATE "C" NOT NULL,
  agent      text COLLATE "C" NOT NULL,
  sender     text COLLATE "C" NOT NULL,
  cwd        text COLLATE "C" NOT NULL,
  origin     text COLLATE "C",
  archived   boolean NOT NULL,
  updated_ms bigint NOT NULL,
  damage     bigint NOT NULL,
  places     bigint NOT NULL,
  state      text COLLATE "C" NOT NULL,
  empty      boolean NOT NULL,
  row        bytea NOT NULL,
  bookmark   bytea
);
CREATE INDEX sessions_by_id ON wakelog.sessions (id);
CREATE INDEX sessions_by_time ON wakelog.sessions (updated_ms DESC, name);
CREATE INDEX sessions_by_origin ON wakelog.sessions (origin);

-- The entries that have words, at their places in the log of the session of that name. `folded` is their words in
-- order, with a space around each; `words` the same for the index, as far as a tsvector can hold them.
CREATE TABLE wakelog.entries (
  name      text COLLATE "C" NOT NULL,
  place     bigint NOT NULL,
  id        text COLLATE "C" NOT NULL,
  type      text COLLATE "C" NOT NULL,
  tools     text COLLATE "C" NOT NULL,
  timestamp text COLLATE "C" NOT NULL,
  time_ms   bigint NOT NULL,
  mark      bigint NOT NULL,
  seq       bigint,
  text      text COLLATE "C" NOT NULL,
  folded    text COLLATE "C" NOT NULL,
  words     tsvector NOT NULL,
  PRIMARY KEY (name, place)
);
CREATE INDEX entries_by_time ON wakelog.entries (time_ms DESC);
CREATE INDEX entries_by_words ON wakelog.entries USING gin (words);
