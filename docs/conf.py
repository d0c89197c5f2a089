"""Settings of the documentation site, which `make docs` builds into `site/`. Nothing is fetched, then or later."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "src")]

from wane import __version__

project = "wane"
author = "the wane authors"
copyright = "the wane authors, Apache-2.0"
version = release = __version__

extensions = [
    "myst_parser",
    "mathml",
    "reference_pages",
    "literal_links",
    "page_tables",
    "gallery",
    "explorer_page",
]
exclude_patterns = ["_build", "_extensions", "conf.py"]
myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_block"]
myst_heading_anchors = 4
nitpicky = True
# Types of other packages have no page on this site.
nitpick_ignore_regex = [("py:.*", r"(?!wane\b).*")]
highlight_language = "text"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"
add_module_names = False
# The prime of a state s' is not a quotation mark.
smartquotes = False

html_theme = "pydata_sphinx_theme"
html_title = "wane"
html_static_path = ["_static"]
html_css_files = ["wane.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_context = {"default_mode": "auto"}
# Summaries of search results would be fetched, which browsers refuse for files.
html_show_search_summary = False
html_sidebars = {"index": [], "search": []}
html_theme_options = {
    "logo": {"text": "wane"},
    "header_links_before_dropdown": 7,
    "navigation_depth": 4,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
