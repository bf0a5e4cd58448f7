"""The fixtures of the command line's tests."""

from tests.cli.conftest import call as call
from tests.cli.conftest import samples as samples
