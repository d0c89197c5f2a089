"""The command line: finds the command that the user names, and prints errors as one line.

The commands are in `wane.commands`, and other packages offer more by entry points. Exit status 2 means that the command
makes no sense, and 1 that it could not be carried out. Nothing heavy is imported before a command runs, so
`wane --help` and `wane --version` answer at once.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.table import Table

import wane
from wane import plugins
from wane.commands.arguments import parse_call
from wane.commands.foraging import forage
from wane.commands.reading import compare, list_experiments, report, show
from wane.commands.running import run
from wane.commands.showing import demo, evaluate, explore
from wane.commands.terminal import Terminal
from wane.executors import ExecutorError
from wane.extras import MissingExtra
from wane.lab.runs.errors import RunError, UsageError
from wane.lab.runs.interrupts import collected
from wane.names import UnknownName, unknown
from wane.settings import SettingError
from wane.texts import message

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "list": list_experiments,
    "run": run,
    "report": report,
    "show": show,
    "compare": compare,
    "evaluate": evaluate,
    "forage": forage,
    "explore": explore,
}
"""The commands of the library."""
GROUP = "wane.commands"
"""The group of the entry points that other packages offer commands under; the paper's are among them."""


def call(words: Sequence[str]) -> None:
    """Calls the command that the first word names, with the other words as its options."""
    command, *rest = words or ["--help"]
    if command in ("-h", "--help"):
        print_help()
    elif command == "--version":
        print(wane.__version__)
    elif command == "run":
        run(rest)
    elif function := COMMANDS.get(command) or plugins.find(GROUP, command, trust=[command]):
        function(**parse_call(function, rest, f"wane {command}"))
    else:
        raise unknown("command", command, [*COMMANDS, *plugins.offered(GROUP)])


def print_help() -> None:
    """Prints every command with the first line of its docstring."""
    table = Table("command", "what it does", title="wane: reinforcement learning when rewards wear off")
    others = {name: plugins.find(GROUP, name, trust=[name]) for name in plugins.offered(GROUP) if name not in COMMANDS}
    for name, function in {**COMMANDS, **others}.items():
        table.add_row(name, (inspect.getdoc(function) or "").splitlines()[0])
    console = Terminal()
    console.print(table)
    console.say("wane COMMAND --help shows the options of a command, and wane --version shows the version.")


def main() -> None:
    """Entry point of the `wane` command."""
    try:
        with collected(), _flushed():
            call(sys.argv[1:])
    except BrokenPipeError:
        # Whoever reads the output has seen enough, as `head` has. Python would complain once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        hint = "; go on with --resume, or with the same `wane reproduce`" if _can_resume() else ""
        print(f"\ninterrupted{hint}", file=sys.stderr)
        raise SystemExit(130) from None
    except (UsageError, UnknownName, SettingError) as error:
        if os.environ.get("WANE_DEBUG"):
            raise
        _print_error(error.as_option if isinstance(error, SettingError) else str(error))
        raise SystemExit(2) from None
    except Exception as error:
        if os.environ.get("WANE_DEBUG") or not _is_expected(error):
            raise
        _print_error(_cure(error))
        raise SystemExit(1) from None


@contextmanager
def _flushed() -> Iterator[None]:
    """Writes out what was printed when the block ends, however it ends."""
    try:
        yield
    finally:
        sys.stdout.flush()


def _print_error(text: str) -> None:
    """Prints an error message in one line, without what a terminal would obey, and without the middle of long text."""
    print("wane:", message(text), file=sys.stderr)


def _is_expected(error: Exception) -> bool:
    """Returns whether an error tells the user what to do. Other errors are bugs and show a traceback."""
    if isinstance(error, ValueError | RunError | ExecutorError | MissingExtra | OSError):
        return True
    from wane.files import DamagedFile

    return isinstance(error, DamagedFile)


def _can_resume() -> bool:
    """Returns whether the given command can be resumed after it stopped."""
    return sys.argv[1:2] in (["run"], ["reproduce"])


def _cure(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    hint = ". Earlier results are untouched; fix this, then continue with --resume" if _can_resume() else ""
    return f"{where}{error.strerror}{hint}"


if __name__ == "__main__":
    main()
