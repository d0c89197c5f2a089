"""`wane evaluate`: a saved agent plays episodes."""

from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from wane.commands.terminal import Terminal
from wane.settings import Count, Range
from wane.texts import join


def evaluate(
    folder: Annotated[Path, tyro.conf.Positional],
    world: str | None = None,
    episodes: Count = 100,
    seed: Annotated[int, Range(0, 2**32 - 1)] = 0,
    film: Path | None = None,
    trust: tuple[str, ...] | None = None,
) -> None:
    """Plays episodes with a saved agent, and prints what it earns.

    Args:
        folder: a saved agent, or the folder of a run, whose agents are then listed
        world: name of a world to play in; the agent's own if not given
        episodes: how many episodes to play
        seed: the seed of the random numbers
        film: a GIF file to write the first episode to
        trust: names of an agent, a depletion or a task of other packages, whose code may run
    """
    from wane.lab.runs import evaluation

    console = Terminal()
    if (folder / "run.json").is_file():
        for path in evaluation.saved_agents(folder):
            console.say(join(["wane", "evaluate", str(path)]))
        if not evaluation.saved_agents(folder):
            console.say(f"{folder} holds no agents: the experiment keeps none, or they were too large together")
        return
    named = trust or ()
    trained = evaluation.load_agent(folder, named if world is None else (*named, world))
    place = trained.world if world is None else evaluation.place_called(world, trained)
    found = evaluation.evaluate(trained, place, episodes, seed)
    console.print(_earnings(trained.name, found, evaluation.best_return(place)))
    if film is not None:
        evaluation.write_film(place, found, film)
        console.say(f"film: {film}")


def _earnings(agent: str, found: Any, best: float | None) -> Table:
    """Returns a table of what an agent earned."""
    from wane.lab.runs.evaluation import mean_and_error

    table = Table("", "mean", "± standard error", title=f"{agent}, {len(found.returns)} episodes")
    rows = {"discounted return": found.returns, "sum of rewards": found.rewards, "steps": found.lengths}
    for name, values in rows.items():
        mean, error = mean_and_error(values)
        table.add_row(name, f"{mean:.4g}", "one episode has none" if error is None else f"{error:.2g}")
    table.add_row("best possible return", "cannot be computed" if best is None else f"{best:.4g}", "")
    return table
