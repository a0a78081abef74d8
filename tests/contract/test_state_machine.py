"""Each store walks in step with the memory model, through whatever Hypothesis can think of."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from support.stores.graph_machine import GraphTwins
from support.stores.model_machine import Twins, bounds


@pytest.mark.timeout(900)  # some ten thousand transactions, each of them on the disk
def test_each_store_walks_in_step_with_the_model(store_url: str) -> None:
    run_state_machine_as_test(lambda: Twins(store_url), settings=bounds(80, 30))  # type: ignore[arg-type]


@pytest.mark.timeout(900)
def test_graphs_steps_and_series_go_the_same_way_in_each_store(store_url: str) -> None:
    run_state_machine_as_test(lambda: GraphTwins(store_url), settings=bounds(40, 25))  # type: ignore[arg-type]
