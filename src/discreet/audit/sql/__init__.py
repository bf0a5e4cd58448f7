"""The SQL audit: a whole engine, end to end, on random neighbouring tables or databases, and random queries."""

from __future__ import annotations

from discreet.audit.sql.audit import Asked as Asked
from discreet.audit.sql.audit import audit_sql as audit_sql
from discreet.audit.sql.databases import RandomDatabases as RandomDatabases
from discreet.audit.sql.databases import all_database_queries as all_database_queries
from discreet.audit.sql.ours import Ours as Ours
from discreet.audit.sql.tables import BulkEngine as BulkEngine
from discreet.audit.sql.tables import Engine as Engine
from discreet.audit.sql.tables import Neighbours as Neighbours
from discreet.audit.sql.tables import RandomTables as RandomTables
from discreet.audit.sql.tables import all_queries as all_queries
