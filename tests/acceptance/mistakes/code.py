"""Mistakes in an app's own code, and in code that uses it."""

from textwrap import dedent, indent

from acceptance.mistakes.mistake import Mistake

TASK = """
@app.task
def add(a: int, b: int = 2) -> int:
    return a + b
"""


def _app(code: str, make: str = "Stem(max_retries=0)") -> str:
    return f"from stem import Middleware, Stem, TaskContext, Worker\n\napp = {make}\n{dedent(code)}"


def in_app(
    name: str, code: str, says: str, *, run: str = "stem worker start --app shop:app", make: str = "Stem()"
) -> Mistake:
    """What is wrong with an app is said when a worker loads it."""
    return Mistake(name=name, files={"shop.py": _app(code, make)}, run=run, says=says, exit_code=64)


def in_call(name: str, code: str, says: str, *, task: str = TASK, make: str = "Stem(max_retries=0)") -> Mistake:
    """What is wrong with a call is the exception that it raises; whoever prints it reads one sentence."""
    called = indent(dedent(code).strip(), "    ")
    client = f"from shop import *\n\ntry:\n{called}\nexcept Exception as error:\n    raise SystemExit(str(error))\n"
    return Mistake(
        name=name,
        files={"shop.py": _app(task, make), "client.py": client},
        run="python client.py",
        says=says,
        exit_code=1,
    )


IMPORTING = [
    Mistake(
        name="an app in a module that does not exist",
        run="stem worker start --app nowhere:app",
        says="no module 'nowhere'",
        exit_code=64,
    ),
    Mistake(
        name="an app in a file that does not exist",
        run="stem worker start --app nowhere.py:app",
        says="There is no file nowhere.py",
        exit_code=64,
    ),
    Mistake(
        name="an app that is given as a path with slashes",
        run="stem worker start --app shop/tasks",
        says="write it like --app shop.tasks:app",
        exit_code=64,
    ),
    in_app(
        "another name for the app",
        TASK,
        "has no 'application' (it has the app 'app'); name the app as --app module:name",
        run="stem worker start --app shop:application",
    ),
    in_app(
        "a task in place of the app", TASK, "is of type Task and not a Stem app", run="stem worker start --app shop:add"
    ),
    in_app("a syntax error in the app", "\ndef broken(:\n    pass\n", "(shop.py, line 5)"),
    in_app(
        "a missing package in the app",
        "import not_installed_here\n",
        "No module named 'not_installed_here', shop.py line 4",
    ),
    in_app("an error while the app is imported", "\n1 / 0\n", "ZeroDivisionError: division by zero, shop.py line 5"),
    in_app("an app that exits while it is imported", "import sys\nsys.exit(3)\n", "SystemExit: 3, shop.py line 5"),
    in_app(
        "an app that starts its worker when it is imported",
        "Worker(app).run()\n",
        "start the worker under if __name__ == '__main__':",
    ),
    Mistake(
        name="an app in a file that is named like a module of Python's",
        files={"queue.py": _app(TASK)},
        run="stem worker start --app queue:app",
        says="Python has a module 'queue' of its own; rename the file queue.py",
        exit_code=64,
    ),
    Mistake(
        name="an app in a file that is named like Stem",
        files={"stem.py": "app = 1\n"},
        run="stem worker start --app stem.py:app",
        says="Stem itself is the module 'stem'; rename the file stem.py",
        exit_code=64,
    ),
    Mistake(
        name="a file of one's own that is named like a module of Python's",
        files={"shop.py": "from queue import put\n", "queue.py": "def put(): ...\n"},
        run="stem worker start --app shop:app",
        says="Python has a module 'queue' of its own, so rename the file queue.py",
        exit_code=64,
    ),
    in_app(
        "a module to include that does not exist", "", "no module 'shop_tasks'", make='Stem(include=["shop_tasks"])'
    ),
    in_app("one module to include as a text", "", 'include=["shop.tasks"]', make='Stem(include="shop_tasks")'),
    in_app("a package to discover that does not exist", 'app.autodiscover(["mails"])\n', "no module 'mails'"),
    in_app(
        "a store of a technology that is not known", TASK, "is not a store that Stem knows", make='Stem("mysql://db")'
    ),
    in_app("a store that is no URL", TASK, "is not a store that Stem knows", make='Stem("localhost:6379")'),
    in_app("a store in the memory of another process", TASK, "use sqlite:///stem.db", make='Stem("memory://")'),
    in_app("a store that is no text", TASK, "broker_url is of type int; use a text", make="Stem(6379)"),
    in_app("one route for the list", TASK, "give a list: routes=[Route(", make='Stem(routes={"match": "mail.*"})'),
    in_app(
        "a misspelt key of a route",
        TASK,
        "did you mean queue?",
        make='Stem(routes=[{"match": "mail.*", "quue": "mail"}])',
    ),
    in_app(
        "a route to a queue with a blank in it",
        TASK,
        "The route for mail.* cannot be used: Queue 'my mail' is not allowed",
        make='Stem(routes=[{"match": "mail.*", "queue": "my mail"}])',
    ),
    in_app(
        "a route that broadcasts to one queue",
        TASK,
        "has both a queue and broadcast, which uses each worker's own queue; leave one of them out",
        make='Stem(routes=[{"match": "mail.*", "queue": "mail", "broadcast": True}])',
    ),
]

DECORATING = [
    in_app(
        "the name of a task in place of its function",
        '@app.task("mail.send")\ndef send(): ...\n',
        "write the name as @app.task(name='mail.send')",
    ),
    in_app("a task without an app", "@Stem.task\ndef send(): ...\n", "make one first: app = Stem(), then @app.task"),
    in_app("bind=True", "@app.task(bind=True)\ndef send(self): ...\n", "use a parameter that is annotated TaskContext"),
    in_app("a misspelt option", "@app.task(max_retrys=3)\ndef send(): ...\n", "did you mean max_retries?"),
    in_app("an option of Celery's", "@app.task(time_limit=3)\ndef send(): ...\n", "use hard_limit"),
    in_app("a method", "class Mail:\n    @app.task\n    def send(self): ...\n", "make it a plain function"),
    in_app("a class", "@app.task\nclass Mail: ...\n", "decorates a plain def or async def, not a type"),
    in_app(
        "a partial", "import functools\napp.task(functools.partial(print, 1))\n", "not a partial; wrap it in a function"
    ),
    in_app("a lambda", "send = app.task(lambda: 1)\n", "A lambda has no name to travel by; write a def"),
    in_app(
        "a generator", "@app.task\ndef send():\n    yield 1\n", "yields, and a task returns one value; return a list"
    ),
    in_app("*args", "@app.task\ndef send(*to): ...\n", "arguments travel by name; take a list instead"),
    in_app("positional-only parameters", "@app.task\ndef send(to, /): ...\n", "remove the '/'"),
    in_app(
        "two contexts",
        "@app.task\ndef send(a: TaskContext, b: TaskContext): ...\n",
        "an attempt has one context; keep one of them",
    ),
    in_app(
        "two tasks of one name",
        '@app.task(name="mail")\ndef one(): ...\n@app.task(name="mail")\ndef two(a): ...\n',
        "Two functions have the task name mail; give one of them another name",
    ),
    in_app(
        "a limit that is no time", '@app.task(hard_limit="soon")\ndef send(): ...\n', "a text like '30s', '5m' or '2h'"
    ),
    in_app(
        "a soft limit above the hard one",
        '@app.task(soft_limit="2m", hard_limit=60)\ndef send(): ...\n',
        "The soft limit of 120 s is not below the hard limit of 60 s; lower it",
    ),
    in_app("a rate that is none", '@app.task(rate_limit="fast")\ndef send(): ...\n', "5/s"),
    in_app(
        "an exception's name for the class", '@app.task(retry_on="OSError")\ndef send(): ...\n', "an exception class"
    ),
    in_app(
        "a negative number of retries", "@app.task(max_retries=-1)\ndef send(): ...\n", "is not a whole number from 0"
    ),
    in_app("a priority beyond nine", "@app.task(priority=10)\ndef send(): ...\n", "from 0 (last) to 9 (first)"),
    in_app("a queue with a blank in it", '@app.task(queue="my mail")\ndef send(): ...\n', "letters, digits"),
    in_app("one alias as a text", '@app.task(aliases="old")\ndef send(): ...\n', "aliases=['old']"),
    in_app("an engine that is not there", '@app.task(engine="sprak")\ndef send(): ...\n', "sprak"),
    in_app("a middleware's class", "app.use(Middleware)\n", "pass an object whose class derives from stem.Middleware"),
]

CALLING = [
    in_call("a missing argument", "add.enqueue()", "shop.add is missing 'a'; it takes (a, b=…)"),
    in_call("an argument too many", "add.enqueue(1, 2, 3)", "takes 2 positional arguments and got 3"),
    in_call("an argument that is not there", "add.enqueue(1, c=3)", "shop.add has no argument 'c'; it takes (a, b=…)"),
    in_call("an argument given twice", "add.enqueue(1, a=2)", "got argument 'a' twice; give it once"),
    in_call("an argument of another type", 'add.enqueue("one")', "Expected `int`, got `str` - at `$.a`"),
    in_call("an option among the arguments", "add.enqueue(1, delay=5)", "task.options(delay=…).enqueue(…)"),
    in_call("countdown among the arguments", "add.enqueue(1, countdown=5)", "task.options(delay=…).enqueue(…)"),
    in_call("delay()", "add.delay(1)", "no attribute 'delay'; use task.enqueue(…)"),
    in_call("apply_async()", "add.apply_async((1,), countdown=5)", "use task.options(…).enqueue(…)"),
    in_call("send_task()", 'app.send_task("shop.add")', "use app.enqueue(name, args={…})"),
    in_call("result of a handle", "add.enqueue(1).result", "use handle.get()"),
    in_call("a canvas that was not submitted", "(add.s(1) | add.s(2)).get()", "use canvas.submit().get()"),
    in_call("Celery's way to send a signature", "add.s(1).apply_async()", "use canvas.set(…).submit(…)"),
    in_call("a misspelt option of a call", "add.options(dealy=5)", "did you mean delay?"),
    in_call("a delay that is no time", 'add.options(delay="soon")', "a text like '30s', '5m' or '2h'"),
    in_call("a negative delay", "add.options(delay=-5)", "it must not be negative"),
    in_call(
        "a start without a time zone",
        "from datetime import datetime\nadd.options(not_before=datetime(2030, 1, 1))",
        "time zone",
    ),
    in_call(
        "a delay and a start",
        "import datetime as d\nadd.options(delay=5, not_before=d.datetime.now(d.UTC))",
        "give one",
    ),
    in_call("an id with a blank in it", 'add.options(id="order 7")', "letters, digits"),
    in_call("a header that is no text", 'add.options(headers={"tenant": 7})', "Header 'tenant' must be a string"),
    in_call("a misspelt task", 'app.enqueue("shop.ad", {"a": 1})', "did you mean shop.add?"),
    in_call("a task that is not imported", 'app.enqueue("mail.send")', "import the module that defines it"),
    in_call("a list for the arguments by name", 'app.enqueue("shop.add", [1, 2])', "pass a dict with string keys"),
    in_call(
        "an object that is not JSON",
        "keep.enqueue(open)",
        "argument 'what' of shop.keep is not JSON",
        task="""
        @app.task
        def keep(what): ...
        """,
    ),
    in_call(
        "not a number",
        "keep.enqueue(float('nan'))",
        "is NaN or infinite; JSON has none",
        task="""
        @app.task
        def keep(what): ...
        """,
    ),
    in_call(
        "arguments that are too large",
        "keep.enqueue('x' * 2_000_000)",
        "pass a reference, or raise max_args_bytes",
        task="""
        @app.task
        def keep(what): ...
        """,
    ),
    in_call(
        "a model that does not fit",
        "keep.send({'what': {'id': 'x'}})",
        "id: Input should be a valid integer",
        task="""
        import pydantic

        class Order(pydantic.BaseModel):
            id: int

        @app.task
        def keep(what: Order): ...
        """,
    ),
    in_call("an id that was never enqueued", 'app.handle("order-7").get()', "it was never enqueued here"),
    in_call("waiting without a worker", "add.enqueue(1).get(0.1)", "no worker serves queue 'default'; start one with"),
    in_call(
        "current_task() outside of a task", "from stem import current_task\ncurrent_task()", "No task is running here"
    ),
    in_call("a handle that is pickled", "import pickle\npickle.dumps(add.enqueue(1))", "send its id"),
    in_call(
        "a transaction in memory",
        "add.options(connection=object()).enqueue(1)",
        "cannot join a transaction",
        make='Stem("memory://")',
    ),
    in_call("a connection that is none", "add.options(connection=object()).enqueue(1)", "connection="),
    in_call("revoking nothing", "app.control.revoke()", "give at least one id"),
    in_call(
        "an app that is nobody's",
        "Worker(make()).run()",
        "The app is no module's attribute",
        task="""
        def make():
            return Stem()
        """,
    ),
    Mistake(
        name="a task of an interactive session",
        run="python -c \"$(cat session.txt)\" 2>&1 | tail -1 | grep -o 'Task __main__.*'",
        files={"session.txt": f"{_app(TASK)}\nadd.enqueue(1)\n"},
        says="is defined in an interactive session, and no worker can import it; put it into a file",
        exit_code=0,
    ),
]

RUNNING = [
    in_call(name, f"with Worker(app, in_process=True):\n    {code}", says, task=task)
    for name, code, says, task in [
        (
            "a result of another type",
            "count.enqueue().get(20)",
            "returned what its annotation does not allow: Expected `int`, got `str`",
            '@app.task\ndef count() -> int:\n    return "5"\n',
        ),
        (
            "a result that is not JSON",
            "count.enqueue().get(20)",
            "Something in the result is not JSON",
            "@app.task\ndef count():\n    return open\n",
        ),
        (
            "an await that was forgotten within the task",
            "count.enqueue().get(20)",
            "Something in the result is not JSON",
            "import asyncio\n@app.task\nasync def count():\n    return [asyncio.sleep(0)]\n",
        ),
        (
            "progress in percent",
            "count.enqueue().get(20)",
            "give a fraction from 0 to 1",
            "@app.task\ndef count(ctx: TaskContext):\n    ctx.progress(50)\n",
        ),
        (
            "a task that fails",
            "count.enqueue().get(20)",
            "failed after 1 attempt: ValueError: no such order",
            '@app.task\ndef count():\n    raise ValueError("no such order")\n',
        ),
    ]
]

MISTAKES = [*IMPORTING, *DECORATING, *CALLING, *RUNNING]
