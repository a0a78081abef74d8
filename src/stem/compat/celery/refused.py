"""What Celery has and the bridge has not: one sentence for each name, with what to use instead."""

from typing import NoReturn

from stem.core.errors import UsageError


class NotBridged(UsageError):
    """Something of Celery's that Stem does otherwise; the sentence names the replacement."""


class NotAttribute(NotBridged, AttributeError):
    """An attribute of Celery's that Stem does otherwise, so that `hasattr` says no."""


class NotImportable(UsageError, ImportError):
    """A module or name of Celery's that Stem does otherwise; the sentence names the replacement."""


MODULES = {
    "celery.app.amqp": "Stem has no AMQP layer; name queues with queue= and task_routes.",
    "celery.apps": "Start workers with: stem worker start --app MODULE:NAME.",
    "celery.backends": "Stem keeps results with the tasks; read them with AsyncResult.",
    "celery.beat": "Stem's scheduler is `stem beat --app MODULE:NAME`; declare schedules in beat_schedule.",
    "celery.bin": "The commands are `stem worker`, `stem beat` and `stem --help`.",
    "celery.bootsteps": "Stem's worker has no boot steps; connect worker_process_init, or write a stem.Middleware.",
    "celery.concurrency": "Stem runs each task in a process of its own; set `stem worker start --concurrency N`.",
    "celery.contrib.abortable": "Revoke with terminate=True; the task gets TaskRevoked at ctx.heartbeat() at the latest.",
    "celery.contrib.pytest": "Test with stem.testing.eager(app.stem), or a real worker: stem.Worker(app.stem, in_process=True).",
    "celery.contrib.rdb": "Debug with task_always_eager=True, which runs tasks in your own process.",
    "celery.contrib.testing": "Test with stem.Worker(app.stem, in_process=True), or task_always_eager=True.",
    "celery.events": "Follow events with: for event in app.stem.events.subscribe(): …, or `stem observe events --follow`.",
    "celery.fixups": "DJANGO_SETTINGS_MODULE is enough; the bridge sets Django up when a worker loads the app.",
    "celery.loaders": "Configure with app.config_from_object(…), STEM_* variables or stem.yaml.",
    "celery.security": "Sign tasks with STEM_SIGNING_KEYS; see docs/security.md.",
    "celery.worker": "Start workers with: stem worker start --app MODULE:NAME.",
    "celery.platforms": "Use the standard library's os and signal modules.",
    "celery.local": "Use the object itself; the bridge needs no proxies.",
}

NAMES = {
    "Beat": "Run the scheduler with: stem beat --app MODULE:NAME.",
    "Worker": "Start workers with: stem worker start --app MODULE:NAME.",
    "bugreport": "Use `stem worker diagnose`.",
    "group_from": "Use group(…).",
}

APP = {
    "amqp": "Stem has no AMQP layer; name queues with queue= and task_routes.",
    "annotations": "Set options on the tasks; @app.task(rate_limit=…).",
    "backend": "Stem keeps results with the tasks; read them with app.AsyncResult(id).",
    "Beat": "Run the scheduler with: stem beat --app MODULE:NAME.",
    "broker_connection": "Stem opens its store itself; app.stem.store is the open one.",
    "bugreport": "Use `stem worker diagnose`.",
    "connection": "Stem opens its store itself; app.stem.store is the open one.",
    "connection_for_read": "Stem opens its store itself; app.stem.store is the open one.",
    "connection_for_write": "Stem opens its store itself; app.stem.store is the open one.",
    "connection_or_acquire": "Stem opens its store itself; app.stem.store is the open one.",
    "config_from_cmdline": "Use STEM_* variables, stem.yaml or flags of `stem worker start`.",
    "events": "Follow events with: for event in app.stem.events.subscribe(): …",
    "loader": "Use app.config_from_object(…) and app.autodiscover_tasks().",
    "log": "Set logging up with logging.config, or with `stem worker start --log-level`.",
    "pool": "Stem opens its store itself; app.stem.store is the open one.",
    "producer_or_acquire": "Call task.delay(…) or app.send_task(…).",
    "producer_pool": "Call task.delay(…) or app.send_task(…).",
    "setup_security": "Sign tasks with STEM_SIGNING_KEYS; see docs/security.md.",
    "start": "Start workers with: stem worker start --app MODULE:NAME.",
    "steps": "Stem's worker has no boot steps; connect worker_process_init, or write a stem.Middleware.",
    "user_options": "Stem's commands take no options of an app; use environment variables.",
    "Worker": "Start workers with: stem worker start --app MODULE:NAME.",
    "worker_main": "Start workers with: stem worker start --app MODULE:NAME.",
}

TASK = {
    "backend": "Stem keeps results with the tasks; read them with AsyncResult.",
    "chunks_of": "Use task.chunks(items, size).",
    "Strategy": "Workers run tasks in processes of their own; there is no strategy to replace.",
    "Request": "Read self.request; there is no class of requests to replace.",
    "push_request": "Call task.apply(…), which has a request.",
    "send_event": "Report with self.update_state(state=…, meta=…), or log; the event log is app.stem.events.",
    "send_events": "Every task has events; follow them with app.stem.events.subscribe().",
    "shadow_name": "Give the task a name: @app.task(name=…).",
    "subtask_from_request": "Use self.replace(self.s(…)).",
    "signature_from_request": "Use self.replace(self.s(…)).",
    "start_strategy": "Workers run tasks in processes of their own; there is no strategy to replace.",
    "track_started": "A running task is STARTED; there is nothing to switch on.",
}

CALL = {
    "exchange": "Stem has queues and no exchanges; use queue=.",
    "routing_key": "Stem has queues and no routing keys; use queue=.",
    "producer": "Stem opens its store itself; leave producer out.",
    "publisher": "Stem opens its store itself; leave publisher out.",
    "connection": "Stem opens its store itself; to join a transaction use app.stem's task.options(connection=…).",
    "stamped_headers": "Stem has no stamps; use headers= or tags in arguments.",
    "mandatory": "Stem stores every task, so no message is returned; leave mandatory out.",
    "delivery_mode": "Stem stores every task durably; leave delivery_mode out.",
}

SIGNALS = {
    "after_setup_logger": "Set logging up in setup_logging, or with logging.config when the module is imported.",
    "after_setup_task_logger": "Set logging up in setup_logging, or with logging.config when the module is imported.",
    "beat_embedded_init": "`stem worker start --beat` runs the scheduler in a process of its own; connect beat_init.",
    "celeryd_after_setup": "Connect worker_init; queues are flags: stem worker start --queue NAME.",
    "celeryd_init": "Connect worker_init; options of workers are flags, STEM_* variables or stem.yaml.",
    "eventlet_pool_apply": "Stem runs tasks in processes; there are no eventlet pools.",
    "eventlet_pool_postshutdown": "Stem runs tasks in processes; there are no eventlet pools.",
    "eventlet_pool_preshutdown": "Stem runs tasks in processes; there are no eventlet pools.",
    "eventlet_pool_started": "Stem runs tasks in processes; there are no eventlet pools.",
    "heartbeat_sent": "Probe workers with `stem worker healthcheck`, or with the health endpoint.",
    "import_modules": "Connect worker_init, or use include=[…] of the app.",
    "task_internal_error": "Connect task_failure; the worker logs its own errors.",
    "task_received": "Follow the event log: app.stem.events.subscribe(kinds=[…]).",
    "task_rejected": "What cannot run is a dead letter; list them with `stem dlq list`.",
    "task_sent": "Connect after_task_publish.",
    "task_unknown": "A call of an unknown task is a dead letter; list them with `stem dlq list`.",
    "user_preload_options": "Stem's commands take no options of an app; use environment variables.",
    "worker_before_create_process": "Connect worker_process_init, which is sent in each new process.",
    "worker_process_shutdown": "Clean up with atexit or in the task; an isolate may also be killed.",
    "worker_shutting_down": "Connect worker_shutdown.",
}

CONTROL = {
    "add_consumer": "Restart the worker with --queue, or use app.stem.control.resume(queue).",
    "autoscale": "Configure `autoscale:` in stem.yaml, or ask app.stem.control.ask('autoscale-config', {…}).",
    "cancel_consumer": "Pause the queue: app.stem.control.pause(queue).",
    "disable_events": "The event log is always written; leave it out.",
    "election": "Stem's schedulers elect a leader by themselves; leave it out.",
    "enable_events": "The event log is always written; leave it out.",
    "heartbeat": "Workers send heartbeats by themselves; see app.stem.control.workers().",
    "memdump": "Use `stem worker diagnose`.",
    "objgraph": "Use `stem worker diagnose`.",
    "pool_grow": "Start workers with --concurrency N, or configure `autoscale:` in stem.yaml.",
    "pool_restart": "Use app.stem.control.ask('recycle'), which starts fresh isolates.",
    "pool_shrink": "Start workers with --concurrency N, or configure `autoscale:` in stem.yaml.",
    "revoke_by_stamped_headers": "Revoke by id; Stem has no stamps.",
    "terminate": "Use app.control.revoke(id, terminate=True).",
    "time_limit": "Set soft_time_limit and time_limit on the task or on the call.",
}

RESULT = {
    "backend": "Stem keeps results with the tasks; there is no backend to reach.",
    "build_graph": "Draw a canvas with `stem canvas show ID`.",
    "graph": "Draw a canvas with `stem canvas show ID`.",
    "supports_native_join": "Use get().",
    "iter_native": "Use get(), or loop over the results.",
    "join_native": "Use join(), which is as fast.",
}

BROKERS = {
    "amqp": "RabbitMQ",
    "amqps": "RabbitMQ",
    "pyamqp": "RabbitMQ",
    "librabbitmq": "RabbitMQ",
    "sqs": "Amazon SQS",
    "sentinel": "Redis Sentinel",
    "gcpubsub": "Google Pub/Sub",
    "azureservicebus": "Azure Service Bus",
    "azurestoragequeues": "Azure Storage Queues",
    "confluentkafka": "Kafka",
    "kafka": "Kafka",
    "zookeeper": "ZooKeeper",
    "consul": "Consul",
    "etcd": "etcd",
    "filesystem": "a folder",
    "mongodb": "MongoDB",
    "pyro": "Pyro",
    "slmq": "SoftLayer",
}


def refuse(table: dict[str, str], owner: str, name: str) -> NoReturn:
    """Raise what says why a name of Celery's is not here. Raises NotBridged, or AttributeError for one that nobody has."""
    if name in table:
        raise NotAttribute(f"{owner}.{name} is not part of the Celery bridge. {table[name]}")
    raise AttributeError(f"{owner} has no attribute {name!r}.")


def refuse_import(table: dict[str, str], module: str, name: str) -> NoReturn:
    """As `refuse`, for a name of a module: an AttributeError would be turned into an ImportError without the sentence."""
    if name in table:
        raise NotImportable(f"{module}.{name} is not part of the Celery bridge. {table[name]}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
