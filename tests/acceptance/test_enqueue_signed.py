"""A signed call takes nothing from the store: neither queue nor retries that others announce."""

from acceptance.shell import Shell
from stem.backends import connect
from stem.core.settings.app import Settings
from support.workers.steerable import beat

KEYS = "k1:hmac-sha256:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


def test_a_forged_heartbeat_does_not_choose_the_queue_of_a_signed_call(shell: Shell) -> None:
    url = f"sqlite:///{shell.directory}/stem.db"
    store = connect(url, Settings())
    beat(store, "aa", tasks={"mail.send": ["evil", 1_000_000], "mail.s\x1b[2Jend": ["evil", 1]})
    signing = shell.at(STEM_SIGNING_KEYS=KEYS)
    done = signing.run("enqueue", "mail.send")
    assert done.returncode == 0 and "goes to the queue 'default'" in done.stderr
    assert store.broker.depth()["default"].ready == 1
    unsigned = shell.run("enqueue", "mail.sent")
    assert "\x1b" not in unsigned.stderr and "No running worker" in unsigned.stderr
    store.upkeep.close()
