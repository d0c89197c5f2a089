"""`wane demo`, which needs no run."""

from pathlib import Path

from wane.commands.terminal import Terminal


def demo(out: Path = Path("out"), animate: bool = True) -> None:
    """Shows foragers with different beliefs about λ, compared with the optimum, in seconds.

    Args:
        out: folder of all runs; a page to play with, and films if they can be made, go to demo/ in it
        animate: let the foragers walk, if the terminal is wide enough
    """
    from wane import demo as demos

    demos.show(Terminal(), out / "demo", animate)
