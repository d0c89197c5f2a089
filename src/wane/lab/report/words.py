"""Numbers, times, sizes and commands as text. The page and the terminal use the same text."""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wane.texts import join

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SIGNS = {"holds": "✓", "fails": "✗", "undecided": "~", "not tested": "?", "not run": "○"}
KINDS = {"paper": "the paper", "ours": "our question", "identity": "identity"}
"""Where a claim comes from, as the page says it."""
_VERBS = {
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "undecided": ("is undecided", "are undecided"),
    "not tested": ("was not tested", "were not tested"),
    "not run": ("was not run", "were not run"),
}


def number(value: float | int) -> str:
    """Returns a number with four significant digits.

    >>> number(25.98712), number(-0.5), number(-3.3e-16), number(100000.0)
    ('25.99', '−0.5', '−3.3×10⁻¹⁶', '100,000')
    """
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "not a number")
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    digits, _, power = f"{value:.4g}".partition("e")
    return digits.replace("-", "−") + (f"×10{str(int(power)).translate(_RAISED)}" if power else "")


def estimate(claim: Mapping[str, Any]) -> str:
    """Returns the estimate of a claim with its interval, or nothing if the claim has no estimate.

    >>> estimate({"estimate": 1.5, "interval": [1.0, 2.0]})
    '1.5 [1, 2]'
    """
    if claim["estimate"] is None:
        return ""
    low_high = claim["interval"]
    interval = f" [{number(low_high[0])}, {number(low_high[1])}]" if low_high else ""
    return number(claim["estimate"]) + interval


def duration(seconds: float | int) -> str:
    """Returns a time span in the units that suit it.

    >>> duration(0.034), duration(59.96), duration(192), duration(7500)
    ('0.034 s', '1 min 0 s', '3 min 12 s', '2 h 5 min')
    """
    if round(seconds, 1) < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.1f} s"
    if round(seconds) < 3600:
        return "{} min {} s".format(*divmod(round(seconds), 60))
    return "{} h {} min".format(*divmod(round(seconds / 60), 60))


def size(n_bytes: float | int) -> str:
    """Returns a number of bytes in the unit that suits it.

    >>> size(312_400_000), size(1.26e9)
    ('312 MB', '1.3 GB')
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 999.5e6 else f"{n_bytes / 1e6:.0f} MB"


def moment(iso: str) -> str:
    """Returns an ISO time in words, in UTC if it names its zone. Text that is not a time is returned unchanged.

    >>> moment("2026-11-15T10:35:04+00:00")
    '15 November 2026, 10:35 UTC'
    """
    try:
        time = datetime.fromisoformat(iso)
        time = time if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return iso
    return f"{time.day} {time:%B %Y, %H:%M}" + ("" if time.tzinfo is None else " UTC")


def cost(record: Mapping[str, Any]) -> str:
    """Returns what a run cost, as far as its run.json tells.

    >>> cost({"seconds": 72.4, "device": "2 CPU cores", "peak_memory": 512e6, "launcher": "ray"})
    '1 min 12 s on 2 CPU cores, with 512 MB of memory at the peak, through Ray'
    """
    parts = [
        duration(record["seconds"]) if "seconds" in record else "",
        f" on {record['device']}" if "device" in record else "",
        f", with {size(record['peak_memory'])} of memory at the peak" if record.get("peak_memory") else "",
        ", through Ray" if record.get("launcher") == "ray" else "",
    ]
    return "".join(parts).strip(", ")


def setting(value: Any) -> str:
    """Returns the value of a setting as text.

    >>> setting([0.0, 0.5]), setting("arrival"), setting(None), setting(True)
    ('[0.0, 0.5]', 'arrival', 'null', 'true')
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def dotted(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings as a flat dictionary with dotted names.

    >>> dotted({"seeds": 3, "agent": {"step_size": 0.1, "network": {"width": 64}}})
    {'seeds': 3, 'agent.step_size': 0.1, 'agent.network.width': 64}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        nested = isinstance(value, Mapping) and value
        flat |= dotted(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return flat


def changes(changed: Mapping[str, Any]) -> str:
    """Returns changed settings as one line.

    >>> changes({"agent.step_size": 0.5, "timing": "arrival"})
    'agent.step_size = 0.5, timing = arrival'
    """
    return ", ".join(f"{name} = {setting(value)}" for name, value in changed.items())


def command(name: str, scale: str, changed: Mapping[str, Any], out: Path = Path("out")) -> str:
    """Returns the command that runs an experiment with some settings changed.

    The name may be the path of a file. `out` is the folder of all runs.

    >>> command("toy", "quick", {"lambdas": [0.0, 1.0], "agent.step_size": 0.1, "label": "two words", "fast": False})
    "wane run toy --scale quick --lambdas 0.0 1.0 --agent.step-size 0.1 --label 'two words' --no-fast"
    """
    options = [word for field, value in changed.items() for word in _option(field, value)]
    options += [] if out == Path("out") else ["--out", str(out)]
    return join(["wane", "run", _nearby(name), "--scale", scale, *options])


def _nearby(name: str) -> str:
    """Returns the path of a file below the current folder relative to that folder, and any other name unchanged."""
    path = Path(name)
    if not path.is_absolute() or not path.is_relative_to(Path.cwd()):
        return name
    return f"./{path.relative_to(Path.cwd())}"


def _option(field: str, value: Any) -> list[str]:
    """Returns the words that set a field on the command line: `--part.field value`, or `--part.no-field` for False."""
    *parts, last = field.replace("_", "-").split(".")
    if isinstance(value, bool):
        return ["--" + ".".join([*parts, last if value else f"no-{last}"])]
    return ["--" + ".".join([*parts, last]), *_words(value)]


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _words(item)
    else:
        yield "None" if value is None else setting(value)


def evaluate_command(folder: Path, agent: str) -> str:
    """Returns the command that plays an agent that a run kept.

    >>> evaluate_command(Path("out/quick/toy"), "lam=0.5")
    'wane evaluate out/quick/toy/agents/lam=0.5'
    """
    return join(["wane", "evaluate", str(folder / "agents" / agent)])


def count(n: int, one: str, several: str) -> str:
    """Returns a number with the noun in singular or plural."""
    return f"{n} {one if n == 1 else several}"


def phrase(verdict: str, n: int) -> str:
    """Returns the phrase for n claims that have a verdict.

    >>> phrase("holds", 1), phrase("not tested", 2)
    ('claim holds', 'claims were not tested')
    """
    return f"{'claim' if n == 1 else 'claims'} {verb(verdict, n)}"


def verb(verdict: str, n: int) -> str:
    """Returns what n claims do that have a verdict: "hold", "are undecided"."""
    return _VERBS[verdict][n != 1]


def short_phrase(verdict: str, n: int) -> str:
    """Returns a verdict of n claims where the word "claims" is understood.

    >>> short_phrase("holds", 1), short_phrase("holds", 2), short_phrase("undecided", 2)
    ('holds', 'hold', 'undecided')
    """
    return verdict.removesuffix("s") if n != 1 and verdict in ("holds", "fails") else verdict


def tally_sentence(counts: Mapping[str, int], zeros: bool = True) -> str:
    """Returns how many claims have each verdict; without `zeros`, only the verdicts that occur.

    >>> tally_sentence({"holds": 3, "fails": 1, "not run": 0})
    '3 claims hold, 1 claim fails and 0 claims were not run'
    >>> tally_sentence({"holds": 3, "fails": 1, "not run": 0}, zeros=False)
    '3 claims hold and 1 claim fails'
    """
    *most, last = [f"{n} {phrase(verdict, n)}" for verdict, n in counts.items() if n or zeros]
    return " and ".join([", ".join(most), last] if most else [last])


def anchor(*names: str) -> str:
    """Returns an id for an element of the page. Different names have different ids.

    The page's own ids start with "/", so they differ from all of these.

    >>> anchor("toy", "a b/c")
    'toy/a%20b%2Fc'
    """
    return "/".join(quote(name, safe="", errors="replace") for name in names)
