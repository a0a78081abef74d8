"""The wheel and its environments, made once for all tests of the package."""

import pytest

from support.source.clean_environment import CleanEnvironments


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironments:
    return CleanEnvironments(tmp_path_factory.mktemp("packaging"))
