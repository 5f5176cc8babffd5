"""The tables of the database, and the migration from earlier versions.

Each version is a list of statements that SQLite and PostgreSQL both accept. A new database gets all of them in order. A released
statement is never changed; a later change is a new version.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Connection, Double, Integer, MetaData, Table, Text, inspect, text

from holdfast.errors import HoldfastError

metadata = MetaData()

fence = Table(
    "fence",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("term", BigInteger),
    Column("owner", Text),
    Column("batch", BigInteger),
    Column("expires_s", Double),
    Column("address", Text),
)
jobs = Table(
    "jobs",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("name", Text),
    Column("type", Text),
    Column("host_kind", Text),
    Column("state", Text),
    Column("ended", Integer),
    Column("reason", Text),
    Column("document", Text),
    Column("layout", Text),
    Column("refs", Text),
    Column("submitted_s", Double),
    Column("changed_s", Double),
)
history = Table(
    "history",
    metadata,
    Column("job", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("state", Text),
    Column("at_s", Double),
    Column("event", Text),
    Column("cause", Text),
)
placement = Table(
    "placement",
    metadata,
    Column("job", BigInteger, primary_key=True),
    Column("task", Text, primary_key=True),
    Column("replica", Integer, primary_key=True),
    Column("node", Text),
    Column("incarnation", Integer),
    Column("active", Integer),
    Column("failures", Integer),
    Column("abandoned", Integer),
    Column("finished", Integer),
    Column("left_on", Text),
)
nodes = Table("nodes", metadata, Column("name", Text, primary_key=True), Column("draining", Integer))

VERSIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE fence (id INTEGER PRIMARY KEY, term BIGINT NOT NULL, owner TEXT NOT NULL)",
        "INSERT INTO fence (id, term, owner) VALUES (1, 0, '')",
        "CREATE TABLE jobs (id BIGINT PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL,"
        " ended INTEGER NOT NULL, reason TEXT NOT NULL, document TEXT NOT NULL, layout TEXT, refs TEXT NOT NULL,"
        " submitted_s DOUBLE PRECISION NOT NULL, changed_s DOUBLE PRECISION NOT NULL)",
        "CREATE TABLE story (job BIGINT NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, at_s DOUBLE PRECISION NOT NULL,"
        " event TEXT NOT NULL, cause TEXT NOT NULL, PRIMARY KEY (job, number))",
        "CREATE TABLE placement (job BIGINT NOT NULL, task TEXT NOT NULL, replica INTEGER NOT NULL, node TEXT NOT NULL,"
        " incarnation INTEGER NOT NULL, active INTEGER NOT NULL, failures INTEGER NOT NULL, abandoned INTEGER NOT NULL,"
        " PRIMARY KEY (job, task, replica))",
    ),
    (
        "CREATE INDEX jobs_by_state ON jobs (state, id)",
        "CREATE INDEX jobs_unended ON jobs (id) WHERE ended = 0",
        "CREATE TABLE nodes (name TEXT PRIMARY KEY, draining INTEGER NOT NULL)",
    ),
    ("ALTER TABLE fence ADD COLUMN batch BIGINT NOT NULL DEFAULT 0",),
    ("ALTER TABLE placement ADD COLUMN finished INTEGER NOT NULL DEFAULT 0",),
    (
        "ALTER TABLE story RENAME TO history",
        "ALTER TABLE jobs RENAME COLUMN host TO host_kind",
        "UPDATE jobs SET document = replace(document, '\"host\":', '\"host_kind\":')",
    ),
    (
        "ALTER TABLE fence ADD COLUMN expires_s DOUBLE PRECISION NOT NULL DEFAULT 0",
        "ALTER TABLE fence ADD COLUMN address TEXT NOT NULL DEFAULT ''",
    ),
    ("ALTER TABLE placement ADD COLUMN left_on TEXT NOT NULL DEFAULT ''",),
)
WITH_LEASE = 6
"""The first version in which the leader has a lease."""
"""Version 1 has jobs, their histories and placement. Version 2 adds indexes for databases in which many jobs have ended, and the
nodes that are drained. Version 3 adds the number of the last batch that was committed in the present term. Version 4 adds which
replicas have finished. Version 5 renames the history table and the host kind. Version 6 adds the leader's lease and
its address. Version 7 adds on which nodes an earlier incarnation of a replica may still run."""


class NewerDatabase(HoldfastError):
    """A later version of holdfast wrote the database."""


class ForeignDatabase(HoldfastError):
    """The database belongs to another program."""


def migrate(connection: Connection) -> int:
    """Migrate the database to the newest version, in the caller's transaction; return the version that it had.

    Raises NewerDatabase and ForeignDatabase.
    """
    if connection.dialect.name == "postgresql":  # two may start on an empty database; SQLite locks by itself
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('holdfast_schema'))"))
        connection.execute(text("SET LOCAL statement_timeout = 0"))  # a new index of a large table takes long
    if not inspect(connection).has_table("holdfast_schema"):
        _check_is_empty(connection)
        connection.execute(text("CREATE TABLE holdfast_schema (version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO holdfast_schema (version) VALUES (0)"))
    version = stored_version(connection)
    for statements in VERSIONS[version:]:
        for statement in statements:
            connection.execute(text(statement))
    connection.execute(text("UPDATE holdfast_schema SET version = :version"), {"version": len(VERSIONS)})
    return version


def stored_version(connection: Connection) -> int:
    """Return the version of the database, or 0 if it has no tables of holdfast. Raises NewerDatabase."""
    if not inspect(connection).has_table("holdfast_schema"):
        return 0
    version = int(connection.execute(text("SELECT version FROM holdfast_schema")).scalar_one())
    if version > len(VERSIONS):
        raise NewerDatabase(
            f"the database has version {version} and this holdfast knows versions up to {len(VERSIONS)}; "
            "start the newer holdfast that wrote it, or give another --database"
        )
    return version


def _check_is_empty(connection: Connection) -> None:
    """Raise ForeignDatabase for a file with any tables, or a server's database with tables of our names."""
    tables = set(inspect(connection).get_table_names())
    foreign = tables if connection.dialect.name == "sqlite" else tables & set(metadata.tables)
    if foreign:
        raise ForeignDatabase(
            f"the database is not holdfast's: it has the tables {', '.join(sorted(foreign)[:5])} and no 'holdfast_schema'; "
            "give another --database"
        )
