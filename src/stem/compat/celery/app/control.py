"""`app.control` and `inspect`: Celery's remote control over Stem's."""

from collections.abc import Callable, Sequence
from typing import Any

from stem.compat.celery.refused import CONTROL, NotBridged, refuse

_SIGNALS = {"SIGTERM", "SIGKILL", "SIGINT", "SIGQUIT", "SIGUSR1"}


class CeleryControl:
    """Commands to workers. Destinations are the names of workers, as `stem worker status` lists them."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def inspect(self, destination: Any = None, timeout: float = 1.0, **_options: Any) -> "Inspect":
        return Inspect(self._app, _names(destination), timeout)

    def revoke(
        self,
        task_id: Any,
        destination: Any = None,  # noqa: ARG002 - a revoke is for all workers
        terminate: bool = False,
        signal: Any = None,
        **_options: Any,
    ) -> Any:
        """Do not run these tasks; with `terminate` stop them if they run. Durable."""
        ids = [task_id] if isinstance(task_id, str) else [str(each) for each in task_id]
        name = str(getattr(signal, "name", signal or "SIGTERM"))
        self._app.stem.control.revoke(*ids, terminate=terminate, signal=name if name in _SIGNALS else "SIGTERM")

    def ping(self, destination: Any = None, timeout: float = 1.0, **_options: Any) -> list[dict[str, Any]]:
        """`[{"worker": {"ok": "pong"}}]` for each worker that answers."""
        answers = self._app.stem.control.ping(workers=_names(destination), timeout=timeout)
        return [{name: {"ok": "pong"}} for name, reply in answers.replies.items() if reply.status == "ok"]

    def rate_limit(self, task_name: str, rate_limit: Any, destination: Any = None, **_options: Any) -> Any:
        """Change a task's limit, over all workers."""
        rate = f"{rate_limit:g}/s" if isinstance(rate_limit, int | float) else rate_limit
        return self._app.stem.control.ask("rate-limit", {"task": task_name, "rate": rate}, workers=_names(destination))

    def shutdown(self, destination: Any = None, **_options: Any) -> Any:
        return self._app.stem.control.shutdown("warm", workers=_names(destination))

    def purge(self, **_options: Any) -> int:
        """Remove what waits in the app's queues; returns how many."""
        broker = self._app.stem.store.broker
        return sum(int(broker.purge(queue)) for queue in self._app.queues())

    discard_all = purge

    def broadcast(
        self,
        command: str,
        arguments: dict[str, Any] | None = None,
        destination: Any = None,
        reply: bool = False,
        timeout: float = 1.0,
        **_options: Any,
    ) -> Any:
        """Send a command by name to all workers, or to those named."""
        arguments = arguments or {}
        if command in ("revoke", "terminate"):
            return self.revoke(arguments["task_id"], terminate=arguments.get("terminate", command == "terminate"))
        if command == "rate_limit":
            return self.rate_limit(arguments["task_name"], arguments["rate_limit"], destination)
        if command == "shutdown":
            return self.shutdown(destination)
        if command == "ping":
            answers = self.ping(destination, timeout)
        elif command in _INSPECTED:
            found = getattr(self.inspect(destination, timeout), command)() or {}
            answers = [{name: value} for name, value in found.items()]
        else:
            raise NotBridged(
                f"There is no command {command!r} in the Celery bridge. "
                f"{CONTROL.get(command, 'Use app.stem.control.ask(…), or broadcast a task with a Route.')}"
            )
        return answers if reply else None

    def __getattr__(self, name: str) -> Any:
        refuse(CONTROL, "app.control", name)


class Inspect:
    """Asks workers. Each answer is `{worker: …}`, or None if no worker answered."""

    def __init__(self, app: Any, workers: Sequence[str], timeout: float) -> None:
        self._app, self._workers, self._timeout = app, workers, timeout

    def active(self, safe: Any = None) -> Any:  # noqa: ARG002 - Celery's signature
        """The tasks that run."""
        return self._asked("list-active", {"filters": {}}, _active)

    def stats(self) -> Any:
        return self._asked("stats", {"includeTasks": False}, lambda payload: payload)

    def ping(self, destination: Any = None) -> Any:  # noqa: ARG002 - as above
        return self._asked("ping", {}, lambda _payload: {"ok": "pong"})

    def reserved(self, safe: Any = None) -> Any:  # noqa: ARG002 - as above
        """Tasks that a worker holds and has not started; Stem counts them, so the lists are empty or hold ids."""
        return self._asked("stats", {"includeTasks": True}, lambda payload: payload.get("reservedTasks") or [])

    def scheduled(self, safe: Any = None) -> Any:  # noqa: ARG002 - as above
        """Nothing: tasks with a countdown wait in the store, and no worker holds them."""
        return self._asked("ping", {}, lambda _payload: [])

    def registered(self, *_info: str) -> Any:
        """The tasks of this app, which the workers of the app have."""
        names = sorted(self._app.tasks)
        return self._asked("ping", {}, lambda _payload: names)

    registered_tasks = registered

    def active_queues(self) -> Any:
        workers = self._app.stem.control.workers()
        found = {name: [{"name": queue} for queue in pulse.heartbeat.queues] for name, pulse in workers.items()}
        chosen = {name: queues for name, queues in found.items() if not self._workers or name in self._workers}
        return chosen or None

    def revoked(self) -> Any:
        with self._app.stem.store_connection.revokes() as revokes:
            ids = [each.task_id for page in revokes.pages(0, 1000) for each in page]
        return self._asked("ping", {}, lambda _payload: ids)

    def _asked(self, command: str, payload: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
        answers = self._app.stem.control.ask(command, payload, workers=self._workers, timeout=self._timeout)
        found = {
            name: read(dict(reply.payload or {})) for name, reply in answers.replies.items() if reply.status == "ok"
        }
        return found or None

    def __getattr__(self, name: str) -> Any:
        refuse(CONTROL, "inspect", name)


_INSPECTED = ("active", "stats", "reserved", "scheduled", "registered", "active_queues", "revoked")


def _names(destination: Any) -> list[str]:
    return [] if destination is None else [destination] if isinstance(destination, str) else list(destination)


def _active(payload: dict[str, Any]) -> list[dict[str, Any]]:
    tasks = payload.get("tasks") or []
    return [{"id": each.get("id"), "name": each.get("task") or each.get("name"), **each} for each in tasks]
