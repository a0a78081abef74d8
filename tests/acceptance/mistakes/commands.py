"""Mistakes on the command line, in the configuration and in the environment."""

from acceptance.mistakes.mistake import Mistake

SHOP = {
    "shop.py": "from stem import Stem\n\napp = Stem()\n\n\n@app.task(name='add')\ndef add(a: int) -> int:\n    return a\n"
}
# As where `stem-tasks` was installed without its extra: what Spark needs cannot be imported.
BARE = {
    "sitecustomize.py": "import sys\nfor name in ('pyspark', 'pyarrow', 'pandas', 'deltalake'):\n    sys.modules[name] = None\n"
}
HALF = {"sitecustomize.py": "import sys\nsys.modules['pyarrow'] = None\n"}
HERE = {"PYTHONPATH": "."}
NO_STORE = "There is no store here"
A_STORE = "stem enqueue add >/dev/null; "


def typed(run: str, says: str, exit_code: int = 64, **given: dict[str, str]) -> Mistake:
    variables = given.get("variables", {})
    name = " ".join([*(f"{key}={value}" for key, value in variables.items()), run.removeprefix(A_STORE)])
    return Mistake(
        name=name, run=run, says=says, exit_code=exit_code, files=given.get("files", {}), variables=variables
    )


WORDS = [
    typed("stem frobnicate", "No such command 'frobnicate'; see 'stem --help'."),
    typed("stem wroker start", "did you mean 'stem worker'?"),
    typed("stem ping", "did you mean 'stem worker ping'?"),
    typed("stem revoke 7", "did you mean 'stem task revoke'?"),
    typed("stem worker pnig", "did you mean 'stem worker ping'?"),
    typed("stem worker shop.tasks:app", "No such command 'shop.tasks:app'; see 'stem worker --help'."),
    typed("stem worker ping.x", "did you mean 'stem worker ping'?"),
    typed(A_STORE + "stem worker ping --timeout 0", "A time-out of 0 s is not from 0.001 to"),
    typed("stem task lst", "did you mean 'stem task list'?"),
    typed("stem dlq reply 7", "did you mean 'stem dlq replay'?"),
    typed("stem config chek", "did you mean 'stem config check'?"),
    typed("stem --verison", "Did you mean '--version'?"),
    typed("stem task list --sate failed", "Did you mean"),
    typed("stem task show", "Missing argument 'ID'"),
    typed("stem queue peek", "Missing argument 'QUEUE'"),
    typed("stem worker multi start", "Missing argument 'NODE...'"),
]

STARTING = [
    typed("stem worker start", "A worker needs an app; name it as --app shop.tasks:app"),
    typed("stem worker start -A nowhere:app", "There is no module 'nowhere'"),
    typed("stem worker start -A nowhere.py", "There is no file nowhere.py"),
    typed("stem worker start -A shop:application", "Module 'shop' has no 'application'", files=SHOP),
    typed("stem worker start -A shop/tasks:app", "does not name an app"),
    typed("stem worker start -A shop:app -c 0", "0 is not in the range"),
    typed("stem worker start -A shop:app -c many", "'many' is not a valid integer"),
    typed("stem worker start -A shop:app --lease 10ms", "--lease is not at least 0.5 s: one slow write"),
    typed("stem worker start -A shop:app --lease soon", "'soon' is not a duration; write 10, 10s, 5m, 2h or 1d"),
    typed(
        "stem worker start -A shop:app --soft-limit 10s --hard-limit 5s", "not below the hard limit of 5 s; lower it"
    ),
    typed("stem worker start -A shop:app --autoscale 10", "write it like 2,10"),
    typed("stem worker start -A shop:app --autoscale 10,2", "autoscale.min 10 is above autoscale.max 2; lower it."),
    typed("stem worker start -A shop:app --max-memory-per-isolate lots", "'lots' is not a size; write 512MB"),
    typed("stem worker start -A shop:app -n 'my worker'", "Worker name 'my worker' is not 1 to 128"),
    typed("stem worker start -A shop:app -l loud", "'loud' is not one of"),
    typed("stem worker start -A shop:app -Q 'my queue'", "Queue 'my queue'"),
]

STORES = [
    typed("stem task list", NO_STORE, 1),
    typed("stem task show 7", NO_STORE, 1),
    typed("stem queue list", NO_STORE, 1),
    typed("stem dlq list", NO_STORE, 1),
    typed("stem health", NO_STORE, 1),
    typed("stem worker ping", NO_STORE, 1),
    typed("stem worker status", NO_STORE, 1),
    typed("stem task list --broker-url mysql://host/db", "is not a store that Stem knows; use sqlite:///path"),
    typed("stem task list --broker-url memory://", "lives in one process alone"),
    typed("stem task list --broker-url sqlite://stem.db", "names a host, and SQLite is a file"),
    typed("stem health --broker-url redis://127.0.0.1:1", "127.0.0.1:1", 70),
    typed("stem health --broker-url postgresql://127.0.0.1:1/db", "127.0.0.1", 70),
    typed("stem task list -A nowhere:app", "There is no module 'nowhere'"),
]

CALLS = [
    typed("stem enqueue add --args '{\"a\": 1'", "--args is not JSON"),
    typed("stem enqueue add --args '[1]'", "--args is not a JSON object of named arguments"),
    typed("stem enqueue add --args @missing.json", "@missing.json cannot be read (No such file or directory)"),
    typed("stem enqueue add --arg a", "--arg 'a' is not key=value; write it like --arg customer=acme."),
    typed("stem enqueue add --arg a=1 --arg a=2", "--arg a is given twice."),
    typed("stem enqueue add --priority 12", "12 is not in the range 0<=x<=9"),
    typed("stem enqueue add --delay tomorrow", "'tomorrow' is not a duration"),
    typed("stem enqueue add --not-before 2030-01-31T09:00:00", "has no time zone; add Z"),
    typed("stem enqueue add --unique always", "is neither until_done nor a duration"),
    typed("stem enqueue ad -A shop:app --arg a=1", "did you mean add?", files=SHOP),
    typed("stem enqueue add -A shop:app --arg b=1", "add is missing 'a'; it takes (a).", files=SHOP),
]

ROUTING = [
    typed("stem routing shwo", "did you mean 'stem routing show'?"),
    typed("stem routing show 'my task'", "Task name 'my task' is not allowed"),
    typed("stem routing show -A nowhere:app", "There is no module 'nowhere'"),
    typed(
        "stem enqueue cache.clear",
        "No live worker is there to run the broadcast cache.clear, so nothing was enqueued",
        70,
        files={"stem.yaml": "routes:\n- {match: cache.*, broadcast: true}\n"},
    ),
    *(
        typed(run, f"stem.yaml, line {line}: {says}", files={"stem.yaml": text})
        for run, text, line, says in [
            ("stem routing show", "routes: mail\n", 1, "routes is a str; use a list of rules"),
            ("stem enqueue add", "routes:\n- mail.*\n", 2, "A route is 'mail.*'; use a mapping with match"),
            ("stem task list", "routes:\n- queue: mail\n", 2, "A route has no match; name the tasks"),
            (
                "stem config check",
                "routes:\n- {match: a}\n- {match: b, prio: 1}\n",
                3,
                "A route has the key 'prio', which is not one of match, queue, priority, tenant, broadcast",
            ),
            ("stem queue list", "routes:\n- match: mail [\n", 2, "A route has the match 'mail ['; use a task's name"),
            (
                "stem enqueue b",
                "routes:\n- {match: b, queue: my mail}\n",
                2,
                "The route for b cannot be used: Queue 'my",
            ),
            (
                "stem enqueue b",
                "routes:\n- {match: b, priority: 12}\n",
                2,
                "The route for b cannot be used: Priority 12",
            ),
            ("stem enqueue b", "routes:\n- {match: b, tenant: 7}\n", 2, "The route for b has the tenant 7; use a text"),
            ("stem enqueue b", "routes:\n- {match: b, broadcast: 5}\n", 2, "The route for b has broadcast 5; use true"),
        ]
    ),
]

ASKING = [
    typed(A_STORE + "stem task show nosuch", "no task nosuch", 1),
    typed(A_STORE + "stem task result nosuch --wait soon", "'soon' is not a duration"),
    typed("stem task list --state done", "'done' is not one of"),
    typed("stem task list --since yesterday", "is neither a duration like 1h nor a moment"),
    typed(A_STORE + "stem task list --cursor 7x", "is none that this listing printed"),
    typed(A_STORE + "stem task revoke nosuch", "There is no task nosuch", 1),
    typed("stem worker revoke", "Name at least one task"),
    typed("stem worker revoke 7 --worker w1", "leave out --worker"),
    typed(A_STORE + "stem queue pause nosuch", "No task has waited in the queue nosuch", 1),
    typed("stem queue pause", "Name at least one queue"),
    typed(A_STORE + "stem queue purge default", "There is no terminal to ask at; add --yes"),
    typed("stem dlq replay", "Say which dead letters"),
    typed(A_STORE + "stem dlq show nosuch", "There is no dead letter nosuch here", 1),
    typed(A_STORE + "stem worker ping", "No worker is running in namespace 'stem' on sqlite:///", 1),
    typed(A_STORE + "stem worker ping --worker w1", "No worker w1 is running", 1),
    typed("stem worker healthcheck --pidfile w1.pid", "w1.pid", 70),
]

CONFIGURATION = [
    typed("stem config check", "did you mean STEM_BROKER_URL?", 0, variables={"STEM_BROKER": "redis://host"}),
    typed(
        "stem worker start -A nowhere:app",
        "did you mean STEM_BROKER_URL?",
        variables={"STEM_BROKER_ULR": "redis://host"},
    ),
    typed("stem task list", "STEM_STORE_TIMEOUT='fast' is not", variables={"STEM_STORE_TIMEOUT": "fast"}),
    typed("stem task list", "STEM_NAMESPACE='my space' is not", variables={"STEM_NAMESPACE": "my space"}),
    typed("stem task list", "STEM_CONFIG names missing.yaml", variables={"STEM_CONFIG": "missing.yaml"}),
    typed("stem config check", "signing.keys: ", variables={"STEM_SIGNING_KEYS": "secret"}),
    typed("stem config check", "did you mean worker.concurrency?", 0, files={"stem.yaml": "worker: {concurency: 4}\n"}),
    typed(
        "stem worker start -A nowhere:app",
        "did you mean worker.concurrency?",
        files={"stem.yaml": "worker: {concurency: 4}\n"},
    ),
    typed("stem config check", "stem.yaml, line 3", files={"stem.yaml": "worker: {\nconcurrency: [4\n"}),
    typed("stem config check", "worker.concurrency is 'four'", files={"stem.yaml": "worker: {concurrency: four}\n"}),
    typed(
        "stem config check",
        "worker.lease is '10ms'; use at least 0.5 s: one slow write",
        files={"stem.yaml": "worker: {lease: 10ms}\n"},
    ),
]

PIPELINE = [
    typed("stem pipeline run", "pip install 'stem-tasks[spark]'", files=BARE, variables=HERE),
    typed("stem pipeline report", "pip install 'stem-tasks[spark]'", files=BARE, variables=HERE),
    typed("stem pipeline sql 'select 1'", "pip install 'stem-tasks[spark]'", files=HALF, variables=HERE),
    typed("stem pipeline doctor", "pip install 'stem-tasks[spark]'", 70, files=BARE, variables=HERE),
]

# Of somebody who has only read README and tutorial.
TUTORIAL = [
    typed("stem worker start shop:app", "write it as --app shop:app.", files=SHOP),
    typed("stem beat shop:app", "write it as --app shop:app.", files=SHOP),
    typed("stem enqueue add a=1 b=2", "write it as --arg a=1 --arg b=2."),
    typed("stem worker start -A shop --autoscale 4", "'4' is not two whole numbers; write it like 2,10", files=SHOP),
    typed("stem worker start -A shop --health 8080", "--health is not an address like 127.0.0.1:8765", files=SHOP),
    typed("stem worker shutdown --mode gentle", "'gentle' is not one of 'warm', 'soft', 'hard'"),
    typed("stem observe task", "did you mean 'stem observe tasks'?"),
    typed("stem dlq replay", "Say which dead letters: ids, or filters"),
    typed(A_STORE + "stem dlq replay nosuch", "There is no dead letter nosuch here, or no more", 1),
    typed(A_STORE + "stem task signal nosuch approved", "There is no task nosuch", 1),
    typed(A_STORE + "stem task logs nosuch", "There is no task nosuch", 1),
    typed(A_STORE + "stem task revoke nosuch --terminate", "add --unknown-ok to revoke an id before it is enqueued", 1),
    typed(A_STORE + "stem queue pause mial", "add --unknown-ok if one will come", 1),
    typed(A_STORE + "stem schedule run nosuch", "There is no schedule 'nosuch'; see which there are with"),
    typed(A_STORE + "stem schedule add c --task add --spec 'every 15 minuets'", "minuets"),
    typed(A_STORE + "stem dashboard --host 0.0.0.0", "nobody would have to log in; add --password-file"),
]

MISTAKES = [*TUTORIAL, *WORDS, *STARTING, *STORES, *CALLS, *ROUTING, *ASKING, *CONFIGURATION, *PIPELINE]
