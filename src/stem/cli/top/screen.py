"""The live screen of `stem top`."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from stem.cli.support.printing import STATE_COLOURS, plain
from stem.cli.top.dialogs import Confirm, TaskScreen
from stem.cli.top.reading import FAILURE_COLUMNS, QUEUES, TASK_COLUMNS, WORKERS, Cells, TaskDetail, TopStore, TopView
from stem.core.errors import StemError

_MOST_WIDTH = 60  # of a cell


class TopApp(App[None]):
    """Reads in a thread, every so often, so that keys are answered at once even if the store is slow."""

    TITLE = "stem top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012
        Binding("q", "quit", "Quit"),
        Binding("tab", "focus_next", "Next table"),
        Binding("enter", "open", "Open task"),
        Binding("p", "change('pause', 'queues')", "Pause queue"),
        Binding("r", "change('resume', 'queues')", "Resume queue"),
        Binding("x", "change('revoke', 'tasks')", "Revoke task"),
        Binding("y", "change('replay', 'failures')", "Replay letter"),
    ]
    CSS = """
    #headline { height: 1; background: $primary; color: $text; padding: 0 1; text-style: bold; }
    #concerns { height: auto; max-height: 4; padding: 0 1; color: $warning; }
    .table { border: round $primary; height: 1fr; }
    .table:focus-within { border: round $accent; }
    #queues-box, #workers-box { height: auto; max-height: 12; }
    #message { height: 1; padding: 0 1; }
    DataTable { height: auto; }
    """

    def __init__(self, store: TopStore, first: TopView, every_seconds: float) -> None:
        super().__init__()
        self._store = store
        self._first = first
        self._every_seconds = every_seconds

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        yield Static(id="concerns")
        for name in ("queues", "workers", "failures", "tasks"):
            with Vertical(id=f"{name}-box", classes="table") as box:
                box.border_title = name
                yield DataTable(id=name, cursor_type="row", zebra_stripes=True)
        yield Static(id="message")
        yield Footer()

    def on_mount(self) -> None:
        columns = {"queues": QUEUES, "workers": WORKERS, "failures": FAILURE_COLUMNS, "tasks": TASK_COLUMNS}
        for name, titles in columns.items():
            self._table(name).add_columns(*titles)
        self.show(self._first)
        self._table("queues").focus()
        self.set_interval(self._every_seconds, self.refresh_view)

    @work(thread=True, exclusive=True, group="read")
    def refresh_view(self) -> None:
        """Read the store in a thread; a store that is away is told of, and asked again."""
        try:
            view = self._store.read()
        except StemError as error:
            self.call_from_thread(self._say, str(error), is_bad=True)
            return
        self.call_from_thread(self.show, view)

    def show(self, view: TopView) -> None:
        self._main.query_one("#headline", Static).update(Text(view.headline))
        concerns = [f"! {plain(concern.text)}" for concern in view.overview.concerns]
        self._main.query_one("#concerns", Static).update(Text("\n".join(concerns[:4])))
        self._fill("queues", view.queue_rows())
        self._fill("workers", view.worker_rows())
        self._fill("failures", view.failure_rows())
        self._fill("tasks", view.task_rows())

    def action_open(self) -> None:
        """Open the task under the cursor."""
        chosen = self._chosen("tasks", "failures")
        if chosen is not None:
            self._load(chosen)

    def on_data_table_row_selected(self) -> None:
        self.action_open()

    def action_change(self, verb: str, table: str) -> None:
        """Ask first, then act on the row under the cursor."""
        tables = ("tasks", "failures") if table in ("tasks", "failures") else (table,)
        chosen = self._chosen(*tables)
        if chosen is None:
            self._say(f"Move to the table of {' or '.join(tables)} first (Tab).", is_bad=True)
        else:
            self._confirm(verb, chosen)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's
        """Hide the keys of the tables while a window is open."""
        return action not in ("open", "change") or self.screen is self._main

    def _confirm(self, verb: str, what: str) -> None:
        def answered(is_wanted: bool | None) -> None:
            if is_wanted:
                self._act(partial(getattr(self._store, verb), what))

        self.push_screen(Confirm(f"{verb.capitalize()} {what}?"), answered)

    @work(thread=True, group="act")
    def _act(self, action: Callable[[], str]) -> None:
        try:
            done = action()
        except StemError as error:
            self.call_from_thread(self._say, str(error), is_bad=True)
            return
        self.call_from_thread(self._say, done)
        self.call_from_thread(self.refresh_view)

    @work(thread=True, exclusive=True, group="detail")
    def _load(self, task_id: str) -> None:
        try:
            detail = self._store.detail(task_id)
        except StemError as error:
            self.call_from_thread(self._say, str(error), is_bad=True)
            return
        if detail is None:
            self.call_from_thread(self._say, f"There is no task {task_id} any more.", is_bad=True)
        else:
            self.call_from_thread(self._show_task, detail)

    def _show_task(self, detail: TaskDetail) -> None:
        def chosen(verb: str | None) -> None:
            if verb is not None:
                self._confirm(verb, detail.view.record.id)

        self.push_screen(TaskScreen(detail), chosen)

    def _chosen(self, *tables: str) -> str | None:
        """The key of the row under the cursor, if one of these tables has the focus."""
        table = self.focused
        if not isinstance(table, DataTable) or table.id not in tables or not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def _fill(self, name: str, rows: list[tuple[str, Cells]]) -> None:
        """Replace the rows; the cursor stays with its row."""
        table = self._table(name)
        before = None
        if table.row_count:
            before = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
        table.clear()
        for key, cells in rows:
            table.add_row(*map(_cell, cells), key=key)
        keys = [key for key, _ in rows]
        if before in keys:
            table.move_cursor(row=keys.index(before))

    @property
    def _main(self) -> "Screen[Any]":
        """The screen with the tables, also below a window."""
        return self.screen_stack[0]

    def _table(self, name: str) -> "DataTable[Text]":
        return self._main.query_one(f"#{name}", DataTable)

    def _say(self, text: str, *, is_bad: bool = False) -> None:
        self._main.query_one("#message", Static).update(Text(plain(text), style="red" if is_bad else "green"))


def _cell(text: str) -> Text:
    """Without markup and control characters: names and errors are hostile."""
    shown = plain(" ".join(text.split()))
    short = shown if len(shown) <= _MOST_WIDTH else f"{shown[: _MOST_WIDTH - 1]}…"
    return Text(short, style=STATE_COLOURS.get(text, "") if text in STATE_COLOURS else "", no_wrap=True)
