"""`stem canvas`: what people and scripts see of a canvas that fails, is mended and goes on."""

from acceptance.shell import Shell
from stem import Stem, TaskContext, chord
from stem.core.settings.app import Settings
from stem.testing import run_pending


def test_a_canvas_is_shown_resumed_and_shown_again_by_its_id_or_that_of_a_task(shell: Shell) -> None:
    mended: set[int] = set()
    with Stem(f"sqlite:///{shell.directory}/stem.db", settings=Settings()) as app:

        @app.task(name="check", max_retries=0)
        def check(what: int) -> int:
            if what not in mended:
                raise ValueError("3 rows too few")
            return what

        @app.task(name="split")
        def split(ctx: TaskContext) -> int:
            ctx.spawn(load.s(2))
            return 1

        @app.task(name="load")
        def load(what: int) -> int:
            return what

        total = app.task(name="total")(lambda values: sum(values))
        handle = chord([check.s(7).set(id="first"), split.s()], total.s()).named("nightly").submit()
        run_pending(app)
        failed = shell.out("canvas", "show", "first")
        assert f"canvas  {handle.id}" in failed and "check failed: ValueError: 3 rows too few" in failed
        assert "load (spawned)" in failed and f"stem canvas resume {handle.id}" in failed
        assert "Replayed 1 task" in shell.out("canvas", "resume", "first")
        going = shell.out("canvas", "show", handle.id)
        assert "waiting for the replay of check" in going and "running" in going
        told = shell.json("canvas", "show", handle.id)
        assert [line.get("waitsFor") for line in told["tree"] if line["name"] == "total"] == ["first"]
        assert [line["added"] for line in told["tree"] if line["name"] == "load"] == ["spawned"]
        mended.add(7)
        run_pending(app)
        assert handle.get(10) == 10
    assert "5 of 5" not in shell.out("canvas", "list") and "4 of 4" in shell.out("canvas", "list")
    followed = shell.out("canvas", "show", handle.id, "--follow")
    assert "* " in followed and "waiting for" not in followed
    refused = shell.run("canvas", "revoke", "first")
    assert (refused.returncode, "Traceback" in refused.stderr) != (0, True) and handle.id in refused.stderr
