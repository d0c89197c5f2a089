"""Puts the explorer's modules, style and data into one HTML file that loads nothing.

The files of `page/` are ordinary JavaScript modules: `import { a } from "./b.js"` at the top, and `export` in front of
what others may use. Each becomes a function that returns its exports, in an order in which every module comes after
those that it imports:

    wane["linear"] = (() => { …; return { factor, solve }; })();

There are two scripts. The first one is the mathematics, which the page also hands to its workers as text. The second
one is the page. The content security policy of the file allows these two scripts and its own style by their hashes,
workers made of the first, and nothing else.
"""

import base64
import hashlib
import html
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("page")
_IMPORT = re.compile(r'^import \{(?P<names>[^}]*)\} from "\./(?P<module>\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (?P<name>\w+))", re.MULTILINE)
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_SERVE = 'if (typeof document === "undefined") wane.engine.serve(self);\n'
"""The end of the mathematics: in a worker, where there is no document, it answers messages."""


def build(data: Any) -> str:
    """Returns the page as HTML. `data` is anything that JSON can hold: the page's catalogue and state."""
    mathematics, page, style = _scripts()
    parts = {
        "policy": html.escape(_policy(mathematics, page, style=style)),
        "style": style,
        # Inside of a script, "<" could begin its end tag. In JSON the escape means the same.
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "mathematics": mathematics,
        "page": page,
    }
    return _PLACE.sub(lambda place: parts[place[1]], (SOURCE / "index.html").read_text("utf-8"))


@cache
def _scripts() -> tuple[str, str, str]:
    """Returns the two scripts and the style, as they stand in the page."""
    shared = _in_order("engine") + [name for name in _in_order("state") if name not in _in_order("engine")]
    own = [name for name in _in_order("app") if name not in shared]
    mathematics = '"use strict";\nconst wane = {};\n' + "".join(map(_wrapped, shared)) + _SERVE
    page = '"use strict";\n' + "".join(map(_wrapped, own))
    # Either of these inside of a script would end it for the browser.
    assert not re.search("</script|<!--", mathematics + page, re.IGNORECASE), "a script would end inside of the page"
    return mathematics, page, (SOURCE / "style.css").read_text("utf-8")


def _in_order(name: str) -> list[str]:
    """Returns a module and all that it needs, each after those that it imports."""
    found: list[str] = []
    for imported in _IMPORT.finditer(_read(name)):
        found += [each for each in _in_order(imported["module"]) if each not in found]
    return [*found, name]


def _read(name: str) -> str:
    return (SOURCE / f"{name}.js").read_text("utf-8")


def _wrapped(name: str) -> str:
    """Returns a module as a function that is called at once and returns the module's exports."""
    source = _read(name)
    exported = [found["name"] for found in _EXPORT.finditer(source)]
    body = _EXPORT.sub("", _IMPORT.sub(_destructured, source))
    return f"wane.{name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();\n"


def _destructured(found: re.Match[str]) -> str:
    """Returns an import as a statement that takes the names from the module's exports."""
    names = " ".join(found["names"].split()).replace(" as ", ": ")
    return f"const {{ {names} }} = wane.{found['module']};\n"


def _policy(*scripts: str, style: str) -> str:
    """Returns what a browser may load: the scripts and style of this file, and workers and pictures that it makes."""
    allowed = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; worker-src blob:; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
