"""An app whose tasks a write is checked against, importable where Spark's Python runs."""

from stem import Stem

app = Stem("sqlite:///never-opened.db", max_args_bytes=2000)


@app.task(name="mail.send", queue="mail", priority=7)
def send(to: str, copies: int, urgent: bool = False) -> None: ...


@app.task(name="mail.note")
def note(text: str) -> None: ...


@app.task(name="mail.once", unique="until_done")
def once(to: str) -> None: ...
