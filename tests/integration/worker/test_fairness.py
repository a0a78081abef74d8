"""With fair share a tenant with a long queue does not keep the others waiting."""

from pathlib import Path

import pytest

from stem import Stem
from stem.core.decisions.routing import is_same_or_tenant_queue, queue_of
from stem.core.settings.app import Settings
from stem.worker.supervisor import Worker
from support.until import until


def fair_app(url: str, namespace: str) -> tuple[Stem, list[str]]:
    app, ran = Stem(settings=Settings(broker_url=url, namespace=namespace, fair_share=True)), []

    @app.task(name="serve")
    def serve(tenant: str) -> None:
        ran.append(tenant)

    return app, ran


def test_tenants_are_served_in_turn_however_long_the_queue_of_one_is(store_url: str, namespace: str) -> None:
    app, ran = fair_app(store_url, namespace)
    serve = app.tasks["serve"]
    serve.options(headers={"tenant": "big"}).enqueue_many({"tenant": "big"} for _ in range(1500))
    for _ in range(10):
        serve.options(headers={"tenant": "small"}).enqueue(tenant="small")
    with Worker(app, in_process=True, concurrency=1, prefetch=20):
        until(lambda: len(ran) == 1510, seconds=60)
    assert ran.index("small") < 50
    assert max(place for place, tenant in enumerate(ran) if tenant == "small") < 400
    app.close()


def test_a_tenant_who_comes_later_is_found(store_url: str, namespace: str) -> None:
    app, ran = fair_app(store_url, namespace)
    with Worker(app, in_process=True, concurrency=1):
        app.tasks["serve"].options(headers={"tenant": "early"}).enqueue(tenant="early")
        until(lambda: ran == ["early"])
        app.tasks["serve"].options(headers={"tenant": "late"}).enqueue(tenant="late")
        until(lambda: ran == ["early", "late"])
    app.close()


def test_without_fair_share_the_queue_is_as_it_was_sent(tmp_path: Path) -> None:
    app = Stem(f"sqlite:///{tmp_path}/stem.db")
    app.task(name="serve")(lambda: None)
    app.tasks["serve"].options(headers={"tenant": "acme"}).enqueue()
    assert list(app.store.broker.depth()) == ["default"]
    app.close()


@pytest.mark.parametrize("tenant", ["Ünïcode & spaces", "x" * 500, "a:b"])
def test_a_tenant_of_any_name_has_a_queue(tenant: str) -> None:
    queue = queue_of("default", tenant, is_fair=True)
    assert is_same_or_tenant_queue("default", queue) and queue != "default" and len(queue) < 128
    assert not is_same_or_tenant_queue("default", "defaulted:x")
