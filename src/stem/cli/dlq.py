"""`stem dlq`: list dead letters, replay them, drop them."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import completing, confirm, paging, printing, times
from stem.cli.support.flags import letter_choice, options
from stem.cli.support.lazy_group import SuggestingGroup
from stem.cli.support.stores import Session, in_session
from stem.core.errors import DeadLetterNotFound

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.delivery import DeadLetter


@click.group(cls=SuggestingGroup)
def dlq() -> None:
    """List dead letters, replay them, drop them.

    \b
    Example: stem dlq list
    """


@dlq.command("list")
@letter_choice.filters
@options.limit(50)
@options.cursor
@in_session
def list_letters(session: Session, limit: int, cursor: str | None, since: float | datetime | None, **by: Any) -> None:
    """List dead letters, newest first.

    Each comes with the command that replays it.

    \b
    Example: stem dlq list --queue default --since 1d
    """
    from stem.core.delivery import DeadFilter

    with session.store() as store:
        now = store.upkeep.now()
        start = times.since(since, now)
        with paging.at_cursor(cursor):
            page = store.deadletters.page(DeadFilter(since=start, **by), limit=limit, cursor=cursor)
    if session.as_json:
        from stem.cli.support import json_forms

        letters = [json_forms.letter(letter, _replay_command(letter, session)) for letter in page.items]
        printing.json({"deadLetters": letters, "cursor": page.cursor, "note": session.note})
        return
    rows = [(x.id, x.name, x.queue, x.attempt + 1, times.age(x.dead_at, now)) for x in page.items]
    printing.table(
        ("id", "task", "queue", "attempts", "dead"),
        rows,
        empty="No dead letter matches.",
        shrink=("task", "queue"),
        notes=[f"{letter.reason}: {printing.error(letter.error)}" for letter in page.items],
    )
    if page.items:
        # Below the table, a line each: a command that a narrow column had folded could not be pasted.
        commands = [f"  {printing.plain(_replay_command(letter, session))}" for letter in page.items]
        click.echo("\n".join(["\nReplay:", *commands]))
    if page.cursor is not None:
        again = {**by, "since": start and start.isoformat(), "limit": limit, "cursor": page.cursor}
        printing.more(session.command("dlq", "list", **again))
    if page.items and session.note:
        click.echo(f"\n{session.note}")


@dlq.command("show")
@click.argument("id", shell_complete=completing.letter_ids)
@in_session
def show_letter(session: Session, id: str) -> None:
    """Show everything that is known about dead letter ID.

    \b
    Example: stem dlq show 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00
    """
    from stem.core.envelope import check_id

    check_id(id)
    with session.store() as store:
        letter = store.deadletters.get(id)
    if letter is None:
        raise DeadLetterNotFound(f"There is no dead letter {id} here; see 'stem dlq list' for those there are.")
    if session.as_json:
        from stem.cli.support import json_forms

        printing.json({**json_forms.letter(letter, _replay_command(letter, session)), "note": session.note})
    else:
        printing.facts(_facts(letter, session))
        printing.stack(letter.error.stack if letter.error else "")


@dlq.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completing.letter_ids)
@letter_choice.choice
@click.option("--delay", type=times.DURATION, default=0.0, help="Delay their start: 10s, 5m.")
@click.option("--dry-run", is_flag=True, help="Only show which letters match.")
@in_session
def replay(session: Session, limit: int | None, delay: float, dry_run: bool, **chosen: Any) -> None:
    """Queue dead letters again: by ID, by filter, or --all.

    Each starts afresh, with all its retries.

    \b
    Example: stem dlq replay --queue default --since 1h --dry-run
    """
    from stem.control.dead_letters import replay_letters

    letter_choice.check(chosen)
    with session.store() as store:
        where = letter_choice.filter_of(store, chosen)
        if dry_run:
            dead = _dead(store)
            ids = store.deadletters.replay(where, limit=min(limit or dead, dead), dry_run=True)
        else:
            ids = replay_letters(store, where, limit, delay)
    if session.as_json:
        printing.json({"replayed": ids, "dryRun": dry_run})
    else:
        verb = "Would replay" if dry_run else "Replayed"
        click.echo("\n".join([f"{verb} {len(ids)}.", *(f"  {printing.plain(id)}" for id in ids)]))
    _check_none_missing(chosen["ids"], ids, limit)


@dlq.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completing.letter_ids)
@letter_choice.choice
@options.yes
@in_session
def purge(session: Session, limit: int | None, yes: bool, **chosen: Any) -> None:
    """Drop dead letters: by ID, by filter, or --all.

    They cannot be replayed any more; the records of their tasks stay.

    \b
    Example: stem dlq purge --reason retries-exhausted --since 7d --yes
    """
    from stem.control.dead_letters import purge_letters

    letter_choice.check(chosen)
    if not confirm.is_confirmed("Drop these dead letters for good?", yes=yes):
        click.echo("Nothing was dropped.", err=True)
        return
    with session.store() as store:
        count = purge_letters(store, letter_choice.filter_of(store, chosen), limit)
    if session.as_json:
        printing.json({"purged": count})
    else:
        click.echo(f"Dropped {count}.")
    absent = len(set(chosen["ids"])) - count
    if absent > 0 and (limit is None or count < limit):
        raise DeadLetterNotFound(f"{absent} of these ids were not among the dead letters; see 'stem dlq list'.")


def _dead(store: "Store") -> int:
    return max(1, sum(depth.dead for depth in store.broker.depth().values()))


def _check_none_missing(asked: tuple[str, ...], replayed: list[str], limit: int | None) -> None:
    missing = sorted(set(asked) - set(replayed))
    if missing and (limit is None or len(replayed) < limit):
        raise DeadLetterNotFound(
            f"There is no dead letter {', '.join(missing)} here, or no more; see 'stem dlq list' for those there are."
        )


def _replay_command(letter: "DeadLetter", session: Session) -> str:
    return session.command("dlq", "replay", letter.id)


def _facts(letter: "DeadLetter", session: Session) -> dict[str, object]:
    import msgspec

    from stem.cli.support.json_forms import arguments

    args = arguments(letter.body)
    return {
        "id": letter.id,
        "task": letter.name,
        "queue": letter.queue,
        "attempts": letter.attempt + 1,
        "reason": letter.reason,
        "when": times.written(letter.dead_at),
        "worker": letter.worker,
        "error": f"{letter.error.type}: {letter.error.message}" if letter.error else None,
        "args": "(unreadable)" if args is None else bytes(args).decode(),
        "meta": msgspec.json.encode(letter.meta).decode() if letter.meta else None,
        "replay": _replay_command(letter, session),
        "note": session.note,
    }
