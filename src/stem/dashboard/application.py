"""The ASGI application of the dashboard: its pages, actions and files."""

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from stem.core.settings.app import masked
from stem.dashboard.access.gate import Gate
from stem.dashboard.access.headers import SecurityHeaders
from stem.dashboard.access.options import Access
from stem.dashboard.actions import canvases as canvas_actions
from stem.dashboard.actions import letters as letter_actions
from stem.dashboard.actions import queues as queue_actions
from stem.dashboard.actions import schedules as schedule_actions
from stem.dashboard.actions import tasks as task_actions
from stem.dashboard.actions import workers as worker_actions
from stem.dashboard.desk import Desk, refusal
from stem.dashboard.handling import action_route, page_route
from stem.dashboard.live import LiveFeed
from stem.dashboard.pages import (
    audit,
    canvases,
    events,
    letters,
    overview,
    queues,
    schedules,
    spark,
    task,
    tasks,
    workers,
)
from stem.dashboard.pages.login import LoginPages
from stem.dashboard.rendering import Templates

if TYPE_CHECKING:
    from stem.client.app import Stem

STATIC = Path(__file__).parent / "static"


class Dashboard(Starlette):
    def build_middleware_stack(self) -> ASGIApp:
        """Outside of everything, so that error pages have the headers as well."""
        return SecurityHeaders(super().build_middleware_stack())


def dashboard(
    app: "Stem", access: Access | None = None, *, lake: str | None = None, host: str | None = None
) -> Dashboard:
    """Return the dashboard of an app's store, to be mounted: `web.mount("/stem", dashboard(app, Access(...)))`.

    Without a login only requests from this machine are answered. `lake` is the folder of the data pipeline. `host` is the
    name that the server listens on. Raises ConfigError.
    """
    access = access or Access()
    made = Dashboard(
        routes=_routes(),
        exception_handlers={HTTPException: _on_http_exception, Exception: _on_surprise},
    )
    made.router.redirect_slashes = False
    made.state.desk = Desk(
        stem=app,
        gate=Gate(access, host),
        templates=Templates(
            has_login_form=access.has_form, store_name=f"{masked(app.settings.broker_url)} · {app.settings.namespace}"
        ),
        feed=LiveFeed(lambda: app.store),
        lake=lake,
    )
    return made


def _routes() -> list[BaseRoute]:
    form, log_in, log_out = LoginPages().endpoints()
    return [
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/login", form, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
        Route("/live", events.live_stream, methods=["GET"]),
        *_pages(),
        *_actions(),
    ]


def _pages() -> list[BaseRoute]:
    return [
        page_route("/", "overview.html", overview.overview_page),
        page_route("/tasks", "tasks.html", tasks.tasks_page),
        page_route("/tasks/bulk", "bulk.html", tasks.bulk_page),
        page_route("/tasks/{task_id}", "task.html", task.task_page),
        page_route("/tasks/{task_id}/timeline", "timeline.html", task.timeline_part),
        page_route("/canvases", "canvases.html", canvases.canvases_page),
        page_route("/canvases/{canvas_id}", "canvas.html", canvases.canvas_page),
        page_route("/queues", "queues.html", queues.queues_page),
        page_route("/queues/{queue}", "queue.html", queues.queue_page),
        page_route("/workers", "workers.html", workers.workers_page),
        page_route("/workers/{worker}", "worker.html", workers.worker_page),
        page_route("/dead-letters", "letters.html", letters.letters_page),
        page_route("/dead-letters/{fingerprint}", "letter_group.html", letters.letter_group_page),
        page_route("/schedules", "schedules.html", schedules.schedules_page),
        page_route("/events", "events.html", events.events_page),
        page_route("/spark", "spark.html", spark.spark_page),
        page_route("/audit", "audit.html", audit.audit_page),
    ]


def _actions() -> list[BaseRoute]:
    task, queue, worker = "/tasks/{task_id}", "/queues/{queue}", "/workers/{worker}"
    group, schedule = "/dead-letters/{fingerprint}", "/schedules/{schedule_id}"
    return [
        *_canvas_actions(),
        action_route("/tasks/bulk", "act on all that match", task_actions.act_on_all),
        action_route(f"{task}/revoke", "revoke", task_actions.revoke_task),
        action_route(f"{task}/terminate", "terminate", task_actions.terminate_task),
        action_route(f"{task}/retry", "retry", task_actions.retry_task),
        action_route(f"{task}/run-again", "run again", task_actions.run_again),
        action_route(
            f"{task}/event",
            "send event",
            task_actions.send_event,
            confirm="Send the event to task {task_id}? The first event of a name counts and cannot be taken back.",
        ),
        action_route(f"{queue}/pause", "pause queue", queue_actions.pause_queue),
        action_route(f"{queue}/resume", "resume queue", queue_actions.resume_queue),
        action_route(
            f"{queue}/purge",
            "purge queue",
            queue_actions.purge_queue,
            confirm="Cancel everything that waits in {queue}?",
        ),
        action_route(f"{worker}/ping", "ping", worker_actions.ping_worker),
        action_route(f"{worker}/pause", "pause worker", worker_actions.pause_worker),
        action_route(f"{worker}/resume", "resume worker", worker_actions.resume_worker),
        action_route(f"{worker}/autoscale", "autoscale", worker_actions.autoscale_worker),
        action_route(f"{worker}/recycle", "recycle", worker_actions.recycle_worker),
        action_route(
            f"{worker}/shutdown", "shut down", worker_actions.shut_down_worker, confirm="Shut down {worker} ({mode})?"
        ),
        action_route(
            "/dead-letters/replay", "replay dead letters", letter_actions.replay_all_letters, confirm=ALL_LETTERS
        ),
        action_route(
            "/dead-letters/purge",
            "purge dead letters",
            letter_actions.purge_all_letters,
            confirm="Delete all these dead letters for good? They cannot be replayed any more.",
        ),
        action_route(f"{group}/replay", "replay dead letters", letter_actions.replay_group),
        action_route(
            f"{group}/purge",
            "purge dead letters",
            letter_actions.purge_group,
            confirm="Delete this group of dead letters for good? They cannot be replayed any more.",
        ),
        action_route(f"{schedule}/enable", "enable schedule", schedule_actions.enable_schedule),
        action_route(f"{schedule}/disable", "disable schedule", schedule_actions.disable_schedule),
        action_route(f"{schedule}/run", "run schedule", schedule_actions.run_schedule),
    ]


def _canvas_actions() -> list[BaseRoute]:
    canvas = "/canvases/{canvas_id}"
    return [
        action_route(
            f"{canvas}/resume",
            "resume canvas",
            canvas_actions.resume_canvas,
            confirm="Replay all tasks of canvas {canvas_id} that have failed?",
        ),
        action_route(
            f"{canvas}/revoke",
            "revoke canvas",
            canvas_actions.revoke_canvas,
            confirm="Revoke all tasks of canvas {canvas_id} that have not ended? What runs goes on.",
        ),
        action_route(
            f"{canvas}/terminate",
            "terminate canvas",
            canvas_actions.terminate_canvas,
            confirm="Revoke all tasks of canvas {canvas_id} that have not ended, and stop those that run?",
        ),
    ]


ALL_LETTERS = "Queue all these dead letters again?"


def _on_http_exception(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentences = {404: "There is no such page; choose one from the navigation.", 405: "That cannot be done this way."}
    return refusal(request, status, sentences.get(status, "This request cannot be answered."))


def _on_surprise(request: Request, _error: Exception) -> Response:
    return refusal(request, 500, "Something unexpected happened; the dashboard's log says what.")
