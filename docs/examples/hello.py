"""The first task. Try: `mainspring submit hello --payload '{"name": "you"}' --wait`."""

from mainspring import JobContext, task


@task("hello")
async def hello(ctx: JobContext, *, name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}! This was attempt {ctx.attempt}."
