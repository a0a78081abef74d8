"""What a ping costs whoever types it."""

import pytest

from acceptance.lab import Lab

CPU_SECONDS = 0.4


@pytest.mark.parametrize("durable_url", ["sqlite", "redis", "postgres"], indirect=True)
def test_a_ping_takes_less_than_four_tenths_of_a_second_of_cpu(any_lab: Lab) -> None:
    any_lab.start("w1")
    assert any_lab.shell.cpu_seconds("worker", "ping", under=CPU_SECONDS) < CPU_SECONDS
