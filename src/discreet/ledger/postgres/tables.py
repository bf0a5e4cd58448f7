"""The tables of a ledger in a schema of their own, and the procedure beside them."""

from __future__ import annotations

from discreet.ledger.postgres.adding import PROCEDURE

FORMAT = 1
"""The version of the format that is written, in which docs/ledger-format.md describes the tables."""

_TABLES = """
DO $make$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('a ledger of discreet'), hashtext('{schema}'));
  IF to_regclass('"{schema}".ledger') IS NOT NULL THEN RETURN; END IF;
  IF to_regnamespace('"{schema}"') IS NULL THEN CREATE SCHEMA "{schema}"; END IF;
  CREATE TABLE "{schema}".entry (
    seq bigint PRIMARY KEY,
    population text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    "key" text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    attempt bigint
  );
  CREATE INDEX entry_by_key ON "{schema}".entry (population, kind, "key", seq);
  CREATE TABLE "{schema}".state (name text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL);
  CREATE TABLE "{schema}".blob (
    name text COLLATE "C",
    part integer,
    value bytea NOT NULL,
    PRIMARY KEY (name, part)
  );
  ALTER TABLE "{schema}".blob ALTER value SET STORAGE EXTERNAL;
  CREATE FUNCTION "{schema}".entry_stays() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''entries never change''; END';
  CREATE TRIGGER entry_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON "{schema}".entry
    EXECUTE FUNCTION "{schema}".entry_stays();
  CREATE TABLE "{schema}".ledger (format integer NOT NULL, fence bigint NOT NULL DEFAULT 0);
  INSERT INTO "{schema}".ledger VALUES ({format});
  {procedure}
END $make$
"""


def procedure(schema: str, text: str = PROCEDURE) -> str:
    """Return the statement that makes the procedure."""
    return text.format(schema=schema, format=FORMAT)


def tables(schema: str) -> str:
    """Return the statement that makes an empty ledger unless there is one."""
    return _TABLES.format(schema=schema, format=FORMAT, procedure=procedure(schema))
