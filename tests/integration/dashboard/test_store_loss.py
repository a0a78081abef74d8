"""A store that goes away is a sentence on the page, and its return is noticed."""

import http.client
from pathlib import Path

from stem import Stem
from stem.core.settings.app import Settings
from support.builders import a_push
from support.stores.outages import RedisKilled
from support.web.dashboards import served


def test_a_page_says_that_the_store_is_away_and_comes_back_by_itself(tmp_path: Path, namespace: str) -> None:
    outage = RedisKilled(tmp_path)
    try:
        settings = Settings(broker_url=outage.url, namespace=namespace, timeout_seconds=1.0)
        with Stem(settings=settings) as app, served(app) as board:
            assert board.get("/queues").status == 200
            stream = http.client.HTTPConnection("127.0.0.1", board.port, timeout=30)
            stream.request("GET", "/live")
            news = stream.getresponse()
            outage.begin()
            lost = board.get("/queues")
            assert lost.status == 503 and "The store does not answer" in lost.words
            assert '<meta http-equiv="refresh"' in lost.text
            part = board.get("/queues", HX_Request="true")
            assert part.status == 503 and "<" not in part.text
            _read_until(news, b"event: lost\n")
            outage.end()
            _read_until(news, b"event: back\n")
            assert board.get("/queues").status == 200
            app.store.broker.push([a_push("a")])
            _read_until(news, b"event: changed\n")
            news.close()
            stream.close()
    finally:
        outage.close()


def _read_until(stream: http.client.HTTPResponse, line: bytes) -> None:
    while (found := stream.readline()) != line:
        assert found, "the stream has ended"
