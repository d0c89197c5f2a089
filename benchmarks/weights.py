"""What the plain install and each extra of wane weigh on disk: the table in the README.

    python -m benchmarks.weights       # in an environment in which wane[all] is installed, not as an editable package

The weight of a package is that of its files, compiled ones included. Extras share packages, so their weights do not add
up. Stable-Baselines3 (`sb3`) is left out, because it brings PyTorch and `all` does not contain it.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOR = {
    "": "exact answers, worlds, agents, `wane demo`, `wane explore`, `wane errata`",
    "plots": "pictures and films of worlds",
    "gym": "Gymnasium environments, `Depleting`",
    "foraging": "`wane.foraging`, `wane forage`",
    "experiments": "experiments, runs and the report: `wane run`, `wane reproduce`, `wane report`",
    "control": "MuJoCo tasks for λ-SAC",
    "cluster": "`--launcher ray`",
    "fit": "`wane.foraging.hierarchical`",
    "all": "all of the above",
}


def needed(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Returns the installed packages that a package with some extras needs, itself included."""
    found, waiting = set(), [(canonicalize_name(name), extras)]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in found:
            continue
        found.add((name, extras))
        for requirement in map(Requirement, distribution(name).requires or ()):
            wanted = [{"extra": extra} for extra in extras or {""}]
            applies = requirement.marker is None or any(map(requirement.marker.evaluate, wanted))
            if applies and is_installed(requirement.name):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in found}


def is_installed(name: str) -> bool:
    """Returns whether a package is installed. Some requirements are for other systems."""
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False


def weight(names: set[str]) -> float:
    """Returns the megabytes of some packages."""
    paths = [Path(str(file.locate())) for name in names for file in distribution(name).files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def main() -> None:
    """Prints the table."""
    plain = needed("wane")
    print("| install | for | weight |\n| --- | --- | --- |")
    for extra, purpose in FOR.items():
        more = needed("wane", frozenset({extra})) | plain if extra else plain
        shown = f"{weight(plain):.0f} MB" if not extra else f"+ {weight(more - plain):.0f} MB"
        print(f"| `{f'wane[{extra}]' if extra else 'wane'}` | {purpose} | {shown} |")


if __name__ == "__main__":
    main()
