"""Thumbnails: a plain function that keeps a core busy. It runs in a thread of a runner process."""

from pathlib import Path

from PIL import Image

from mainspring import JobContext, task

SIZES = (64, 160, 320)


@task("thumbnails.make", queue="thumbnails", timeout=60)
def make(ctx: JobContext, *, photograph: Path, folder: Path) -> list[str]:
    """Write a photograph in three sizes; the longer side is exactly the size."""
    made = []
    with Image.open(photograph) as picture:
        whole = picture.convert("RGB")
    for size in SIZES:
        scale = size / max(whole.size)
        small = whole.resize([max(1, round(side * scale)) for side in whole.size], Image.Resampling.LANCZOS)
        path = folder / f"{photograph.stem}-{size}.jpg"
        # Written beside its name first: a killed attempt leaves no half picture under it.
        unfinished = path.with_suffix(f".{ctx.fence}")
        small.save(unfinished, "JPEG", quality=85)
        unfinished.rename(path)
        made.append(path.name)
    return made
