-- Names of sessions, one row each, never changed.
CREATE TABLE wakelog.directory (
  session text COLLATE "C" PRIMARY KEY,
  name    text COLLATE "C" NOT NULL UNIQUE,
  stem    text COLLATE "C" NOT NULL,
  number  bigint NOT NULL
);
CREATE INDEX directory_by_number ON wakelog.directory (stem, number);

-- Where a session's log ends, its last lease, and until when somebody follows it: who appends sends a notice only
-- then, for a notice makes the commits of the whole server wait for one another. The row is the append lock; no index
-- holds what changes in it.
CREATE TABLE wakelog.logs (
  session  text COLLATE "C" PRIMARY KEY,
  rows     bigint NOT NULL,
  size     bigint NOT NULL,
  followed timestamptz,
  holder   text,
  fence    bigint,
  expires  timestamptz,
  boot     text,
  pids     text,
  pid      bigint,
  born     text
) PARTITION BY HASH (session);

-- The logs: `bytes` of all rows of a session, in their order, are its log. The other columns are derived.
CREATE TABLE wakelog.lines (
  session text COLLATE "C" NOT NULL,
  number  bigint NOT NULL,
  size    bigint NOT NULL,
  seq     bigint,
  id      text COLLATE "C",
  parent  text COLLATE "C",
  type    text COLLATE "C",
  time    timestamptz,
  bytes   bytea NOT NULL,
  PRIMARY KEY (session, number),
  UNIQUE (session, seq),
  UNIQUE (session, id)
) PARTITION BY HASH (session);

-- Replies under way, a piece a row. Removed when the reply stands in the log.
CREATE SEQUENCE wakelog.pieces;
CREATE TABLE wakelog.journals (
  session text COLLATE "C" NOT NULL,
  reply   text COLLATE "C" NOT NULL,
  piece   bigint NOT NULL DEFAULT nextval('wakelog.pieces'),
  bytes   bytea NOT NULL,
  PRIMARY KEY (session, piece)
) PARTITION BY HASH (session);

-- What is too large for a line.
CREATE TABLE wakelog.blobs (
  digest text COLLATE "C" PRIMARY KEY,
  put    timestamptz NOT NULL,
  bytes  bytea NOT NULL
) PARTITION BY HASH (digest);

DO $$
BEGIN
  FOR part IN 0..7 LOOP
    EXECUTE format('CREATE TABLE wakelog.logs_%s PARTITION OF wakelog.logs FOR VALUES WITH (MODULUS 8, REMAINDER %s) WITH (fillfactor = 50)', part, part);
    EXECUTE format('CREATE TABLE wakelog.lines_%s PARTITION OF wakelog.lines FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
    EXECUTE format('CREATE TABLE wakelog.journals_%s PARTITION OF wakelog.journals FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
    EXECUTE format('CREATE TABLE wakelog.blobs_%s PARTITION OF wakelog.blobs FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
  END LOOP;
END $$;
