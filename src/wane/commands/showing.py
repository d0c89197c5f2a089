"""`wane demo`, `explore` and `evaluate`: foragers, worlds and saved agents at work. None of them needs a run."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from wane import user_files
from wane.commands.terminal import Terminal
from wane.names import UnknownName
from wane.settings import Count, Probability, Range
from wane.texts import join


def demo(out: Path = Path("out"), animate: bool = True) -> None:
    """Shows foragers with different beliefs about λ, compared with the optimum, in seconds.

    Args:
        out: folder of all runs; a page to play with, and films if they can be made, go to demo/ in it
        animate: let the foragers walk, if the terminal is wide enough
    """
    from wane import demo as demos

    demos.show(Terminal(), out / "demo", animate)


def explore(
    world: Annotated[str, tyro.conf.Positional] = "two-rooms",
    lam: Probability | None = None,
    file: Path | None = None,
    out: Path = Path("explorer.html"),
    open: bool = True,
) -> None:
    """Writes a page to play with: paint a world, drag λ, watch the forager. Then opens it.

    Args:
        world: a name of the catalogue, a JSON file that the page saved, or a link of the page, all of it or from # on
        lam: λ, the part of a reward that a visit leaves; the world's own if not given
        file: your Python file that registers the world; it is executed
        out: the HTML file to write
        open: open it in the browser
    """
    from wane.depletion import Geometric
    from wane.explorer.pages import explore as explore_world
    from wane.explorer.pages import find_world

    if file is not None:
        _register(file)
    try:
        chosen, view = find_world(world)
    except UnknownName as error:
        raise UnknownName(f"{error}, in a Python file that is named here: --file FILE.py") from error
    chosen = chosen if lam is None else dataclasses.replace(chosen, depletion=Geometric(lam))
    page = explore_world(chosen, view=view).save(out)
    print(f"explorer: {page}")
    if open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _register(file: Path) -> None:
    """Executes a Python file, which adds worlds to the catalogue. Raises UnknownName if there is no such file."""
    if not user_files.is_file_name(file.name) or not file.is_file():
        raise UnknownName(f"--file {file}: there is no such Python file; name the one that calls wane.worlds.register")
    user_files.load(user_files.add_file(str(file)))


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
    from wane.lab.statistics import mean_and_error

    table = Table("", "mean", "± standard error", title=f"{agent}, {len(found.returns)} episodes")
    rows = {"discounted return": found.returns, "sum of rewards": found.rewards, "steps": found.lengths}
    for name, values in rows.items():
        mean, error = mean_and_error(values)
        table.add_row(name, f"{mean:.4g}", f"{error:.2g}" if len(values) > 1 else "one episode has none")
    table.add_row("best possible return", "cannot be computed" if best is None else f"{best:.4g}", "")
    return table
