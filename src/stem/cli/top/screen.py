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
from stem.cli.top.fitting import fitted
from stem.cli.top.reading import FAILURE_COLUMNS, QUEUES, TASK_COLUMNS, WORKERS, Cells, TaskDetail, TopStore, TopView
from stem.core.errors import StemError
from stem.core.settings.kinds import span

_COLUMNS = {"queues": QUEUES, "workers": WORKERS, "failures": FAILURE_COLUMNS, "tasks": TASK_COLUMNS}
_SCROLLBAR = 1  # columns of the screen


class TopApp(App[None]):
    """Reads in a thread, every so often, so that keys are answered at once even if the store is slow."""

    TITLE = "stem top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012
        Binding("q", "quit", "Quit"),
        Binding(
            "tab", "focus_next", "Table", priority=True
        ),  # or the footer hides it, as it does the tables' own enter
        Binding("enter", "open", "Open", priority=True),
        Binding("p", "change('pause', 'queues')", "Pause"),
        Binding("r", "change('resume', 'queues')", "Resume"),
        Binding("x", "change('revoke', 'tasks')", "Revoke"),
        Binding("y", "change('replay', 'failures')", "Replay"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012
    CSS = """
    #headline { height: 1; background: $primary; color: $text; padding: 0 1; text-style: bold; }
    #concerns { height: auto; max-height: 4; padding: 0 1; color: $warning; text-wrap: nowrap; text-overflow: ellipsis; }
    .table { border-top: solid $primary; height: 1fr; }
    .table:focus-within { border-top: heavy $accent; }
    #queues-box, #workers-box { height: auto; max-height: 12; }
    #message { height: auto; min-height: 1; max-height: 3; padding: 0 1; }
    DataTable { height: auto; scrollbar-size-vertical: 1; }
    .-short #concerns { max-height: 2; }
    .-short #queues-box, .-short #workers-box { max-height: 5; }
    """

    def __init__(self, store: TopStore, first: TopView, every_seconds: float) -> None:
        super().__init__()
        self._store = store
        self._last = first
        self._every_seconds = every_seconds
        self._is_away = False

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        yield Static(id="concerns")
        for name in ("queues", "workers", "failures", "tasks"):
            with Vertical(id=f"{name}-box", classes="table") as box:
                box.border_title = f" {name} "
                yield DataTable(id=name, cursor_type="row", zebra_stripes=True)
        yield Static(id="message")
        yield Footer()

    def on_mount(self) -> None:
        self.show(self._last)
        self._table("queues").focus()
        self.set_interval(self._every_seconds, self.refresh_view)

    def on_resize(self) -> None:
        if self.screen_stack and self._main.query("#message"):  # not while it is composed or closed
            self.show(self._last)

    @work(thread=True, exclusive=True, group="read")
    def refresh_view(self) -> None:
        """Read the store in a thread; a store that is away is told of, and asked again."""
        try:
            view = self._store.read()
        except StemError as error:
            self.call_from_thread(self._lose, str(error))
            return
        self.call_from_thread(self._found, view)

    def _found(self, view: TopView) -> None:
        if self._is_away:
            self._is_away = False
            self._say("The store is back.")
        self.show(view)

    def _lose(self, why: str) -> None:
        self._is_away = True
        self._say(f"{why} Asked again every {span(self._every_seconds)}; the tables are older.", is_bad=True)

    def show(self, view: TopView) -> None:
        self._last = view
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

        more = " If it runs, it is terminated." if verb == "revoke" else ""
        self.push_screen(Confirm(f"{verb.capitalize()} {what}?{more}"), answered)

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
        table.clear(columns=True)
        room = self.size.width - _SCROLLBAR - 2 * table.cell_padding * len(_COLUMNS[name])
        widths, (titles, *shown) = fitted(_COLUMNS[name], [[_plain(cell) for cell in cells] for _, cells in rows], room)
        for title, width in zip(titles, widths, strict=True):
            table.add_column(title, width=width)
        for (key, _), cells in zip(rows, shown, strict=True):
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


def _plain(text: str) -> str:
    """Without control characters and on one line: names and errors are hostile."""
    return plain(" ".join(text.split()))


def _cell(text: str) -> Text:
    """Without markup."""
    return Text(text, style=STATE_COLOURS.get(text, ""), no_wrap=True)
