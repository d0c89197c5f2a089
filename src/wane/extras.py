"""Packages that only parts of wane need, and the extras of `pip install 'wane[…]'` that bring them.

A module that needs such packages calls `require` before it imports them. If one of them is missing, the error
says which extra to install, instead of naming a module that the user may not know.
"""

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PLOTS, _GYM = {"matplotlib": "Matplotlib", "PIL": "Pillow"}, {"gymnasium": "Gymnasium"}
_FORAGING = {"pandas": "pandas"} | _PLOTS
_EXPERIMENTS = _FORAGING | {"pyarrow": "PyArrow", "jinja2": "Jinja2"}
EXTRAS: dict[str, dict[str, str]] = {
    "plots": _PLOTS,
    "gym": _GYM,
    "foraging": _FORAGING,
    "experiments": _EXPERIMENTS,
    "control": _GYM | _PLOTS | {"mujoco": "MuJoCo"},
    "cluster": _EXPERIMENTS | {"ray": "Ray"},
    "fit": _FORAGING | {"numpyro": "NumPyro", "arviz": "ArviZ"},
    "sb3": _GYM | {"stable_baselines3": "Stable-Baselines3"},
}
"""The modules that each extra brings, with the names of their projects. `pyproject.toml` says which versions."""


class MissingExtra(ImportError):
    """Raised when a part of wane needs packages that are not installed. The message says how to install them."""


def require(extra: str, what: str) -> None:
    """Raises MissingExtra if a package of an extra is not installed. Nothing is imported.

    `what` is the part of wane that needs the extra. It begins the message.
    """
    missing = [project for module, project in EXTRAS[extra].items() if find_spec(module) is None]
    if missing:
        *others, last = missing
        names = f"{', '.join(others)} and {last}, which are" if others else f"{last}, which is"
        raise MissingExtra(f"{what} needs {names} not installed: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Returns the command that installs an extra from where wane itself came from: an index, a folder or a wheel.

    pip notes that place next to the installed package (`direct_url.json`, PEP 610), so the command also works for
    users who installed wane from a checkout or from a file.
    """
    try:
        origin = json.loads(distribution("wane").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # The package is on PYTHONPATH and was never installed.
        origin = {}
    address = urlsplit(origin.get("url", ""))
    path = Path(unquote(address.path))
    if address.scheme != "file" or not path.exists():
        return f"pip install 'wane[{extra}]'"
    editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{path}[{extra}]'"
