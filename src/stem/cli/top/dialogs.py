"""The windows that `stem top` opens: a question, and one task."""

from collections.abc import Iterator

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Label, Static

from stem.cli.support import times
from stem.cli.support.printing import plain
from stem.cli.top.reading import TaskDetail
from stem.core.text.escaping import plain_lines


class Confirm(ModalScreen[bool]):
    """A question that y answers; everything else means no."""

    BINDINGS = [Binding("y", "answer(True)", "Yes"), Binding("n,escape", "answer(False)", "No")]  # noqa: RUF012
    DEFAULT_CSS = """
    Confirm { align: center middle; }
    Confirm Vertical { width: 70; height: auto; padding: 1 2; border: thick $warning; background: $surface; }
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(Text(plain(self._question)))
            yield Label(Text("y yes    n no", style="bold"))

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class TaskScreen(Screen[str | None]):
    """Everything about one task. Returns what is to be done with it: `revoke`, `replay`, or nothing."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape,q", "leave", "Back"),
        Binding("x", "choose('revoke')", "Revoke"),
        Binding("y", "choose('replay')", "Replay"),
    ]

    def __init__(self, detail: TaskDetail) -> None:
        super().__init__()
        self._detail = detail

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Text("\n").join(_paragraphs(self._detail)), id="detail")
        yield Footer()

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_choose(self, what: str) -> None:
        self.dismiss(what)


def _paragraphs(detail: TaskDetail) -> Iterator[Text]:
    """As text without markup: what tasks say is hostile."""
    view = detail.view
    record = view.record
    facts = {
        "id": record.id,
        "task": record.name,
        "queue": record.queue,
        "state": record.state,
        "attempt": record.attempt + 1,
        "worker": record.worker,
        "enqueued": times.written(record.enqueued_at),
        "due": times.written(view.due_at),
        "started": times.written(record.started_at),
        "finished": times.written(record.finished_at),
        "arguments": None if view.envelope is None else view.envelope.shown_args.decode(errors="replace"),
        "result": None if record.payload is None else bytes(record.payload).decode(errors="replace"),
        "error": f"{record.error.type}: {record.error.message}" if record.error else None,
    }
    for name, value in facts.items():
        if value not in (None, ""):
            yield Text.assemble((f"{name:<11}", "bold"), plain_lines(str(value)))
    if record.error is not None and record.error.stack:
        yield Text(f"\n{plain_lines(record.error.stack.rstrip())}", style="red")
    if detail.timeline.events:
        yield Text("\nevents", style="bold")
        for event in detail.timeline.events:
            yield Text(f"{event.at:%H:%M:%S}  {event.kind.value:<14}  {plain(event.worker or '')}".rstrip())
    if detail.lines:
        yield Text("\nlog", style="bold")
        for line in detail.lines:
            yield Text(f"{plain(line.level.upper()):<8}{plain_lines(line.text)}")
