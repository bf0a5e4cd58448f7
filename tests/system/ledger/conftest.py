"""The fixtures of the ledger's tests."""

from tests.ledger.conftest import ended as ended
from tests.ledger.conftest import fork as fork
from tests.ledger.conftest import ledger as ledger
from tests.ledger.conftest import path as path
from tests.ledger.conftest import pay as pay
