"""Numbers, times and sizes as a reader wants them; the same in the page and in the terminal."""

import json
import math
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """Four digits that count.

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
    """A claim's number with its interval; nothing if it has none."""
    if claim["estimate"] is None:
        return ""
    low_high = claim["interval"]
    interval = f" [{number(low_high[0])}, {number(low_high[1])}]" if low_high else ""
    return number(claim["estimate"]) + interval


def duration(seconds: float) -> str:
    """
    >>> duration(0.034), duration(59.96), duration(192), duration(7500)
    ('0.034 s', '1 min 0 s', '3 min 12 s', '2 h 5 min')
    """
    if round(seconds, 1) < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.1f} s"
    if round(seconds) < 3600:
        return "{} min {} s".format(*divmod(round(seconds), 60))
    return "{} h {} min".format(*divmod(round(seconds / 60), 60))


def size(n_bytes: float) -> str:
    """
    >>> size(312_400_000), size(1.26e9)
    ('312 MB', '1.3 GB')
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 999.5e6 else f"{n_bytes / 1e6:.0f} MB"


def moment(iso: str) -> str:
    """An ISO time, in UTC if it names its zone; text that is none as it is.

    >>> moment("2026-11-15T10:35:04+00:00")
    '15 November 2026, 10:35 UTC'
    """
    try:
        time = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = "" if time.tzinfo is None else " UTC"
    time = time if time.tzinfo is None else time.astimezone(UTC)
    return f"{time.day} {time:%B %Y, %H:%M}{zone}"


def setting(value: Any) -> str:
    """
    >>> setting([0.0, 0.5]), setting("arrival"), setting(None), setting(True)
    ('[0.0, 0.5]', 'arrival', 'null', 'true')
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def changes(changed: Mapping[str, Any]) -> str:
    """
    >>> changes({"lam": 0.5, "timing": "arrival"})
    'lam = 0.5, timing = arrival'
    """
    return ", ".join(f"{field} = {setting(value)}" for field, value in changed.items())


def command(name: str, scale: str, changed: Mapping[str, Any]) -> str:
    """What to type to run it again.

    >>> command("toy", "quick", {"lambdas": [0.0, 1.0], "title": "two words"})
    "wane run toy --scale quick --set lambdas=0.0,1.0 --set 'title=two words'"
    """
    values = {field: ",".join(map(str, v)) if isinstance(v, list) else str(v) for field, v in changed.items()}
    sets = [part for field, value in values.items() for part in ("--set", f"{field}={value}")]
    return shlex.join(["wane", "run", name, "--scale", scale, *sets])


def count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
