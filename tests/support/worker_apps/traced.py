"""Tasks whose traces are followed: they call others, fail once, and say something."""

from stem import Stem, TaskContext

app = Stem(retry=0.02, max_retries=1)


@app.task(name="parent")
def parent(ctx: TaskContext) -> str:
    print("parent speaks")
    return ctx.enqueue(child).id


@app.task(name="child")
async def child() -> None:
    print("child speaks")


@app.task(name="flaky")
def flaky(ctx: TaskContext) -> None:
    print(f"flaky speaks at {ctx.attempt}")
    if ctx.attempt == 0:
        raise RuntimeError("once")


@app.task(name="inline", isolate=False)
def inline() -> None:
    print("inline speaks")
