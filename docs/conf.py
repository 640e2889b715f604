"""The site: `./dev docs` builds it from this folder, with no network and with warnings as errors.

docs/design/site.md says how it is made, and why by these tools."""

import os
import sys
import tomllib

DOCS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(DOCS)
sys.path.insert(0, os.path.join(ROOT, "python"))

with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
    _package = tomllib.load(f)["project"]

project = "skate"
author = _package["authors"][0]["name"]
version = release = _package["version"]
project_copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_copybutton",
]
needs_sphinx = "9.0"
exclude_patterns = ["man", "**/README.md", "_*"]
templates_path: list[str] = []
nitpicky = True
language = "en"

# ---- Markdown: headings are targets of links ([text](page.md#heading)), :::{note} is a directive.
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4

# ---- Python
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# ---- Pages
html_theme = "pydata_sphinx_theme"
html_title = f"skate {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "skate"},
    "navigation_depth": 3,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_prev_next": True,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = False
