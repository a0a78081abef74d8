"""Case 22 from the field: results that somebody waits for outlive their time."""

from stem import chord
from support.client.composable import Kit

DAY = 86_400.0


def test_case_22_the_callback_gets_all_results_though_their_time_is_over(kit: Kit) -> None:
    kept_seconds = kit.app.settings.retention.results_seconds
    handle = chord([kit.add.s(1), kit.add.s(2).set(delay=kept_seconds + DAY)], kit.keep.s()).submit()
    kit.world.clock.advance(kept_seconds + DAY / 2)
    kit.app.store.upkeep.prune()
    kit.world.clock.advance(DAY)
    kit.app.store.upkeep.prune()
    assert handle.get() == [1, 2]
    assert kit.ran("keep") == [[1, 2]]
