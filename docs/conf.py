"""The site: `./dev docs` builds it from this folder, with no network and with warnings as errors.

docs/design/site.md says how it is made, and why by these tools."""

import builtins
import os
import subprocess
import sys
import tomllib

DOCS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(DOCS)
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(DOCS, "_ext")]

import clang.cindex  # noqa: E402
import headers  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx import addnodes  # noqa: E402

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
    "hawkmoth",
    "tables",
]
needs_sphinx = "9.0"
exclude_patterns = ["man", "**/README.md", "_*"]
templates_path: list[str] = []
nitpicky = True
# A struct and a function of C may have one name, which Sphinx takes for a mistake.
suppress_warnings = ["duplicate_declaration.c"]
nitpick_ignore_regex = [
    ("c:identifier", r"u?int\d+_t|size_t|uint8_t"),  # of the C library
    # Types of other packages: their documentation is not on this machine when the site is built.
    (
        "py:.*",
        r"(pyarrow|pa|numpy|np|pandas|pd|torch|tf|ray|polars|PIL|collections|os|typing|pathlib|socket|logging|matplotlib)\..*",
    ),
    # Short names of signatures; "Short names in signatures" in reference/python/types.rst has them.
    (
        "py:class",
        r"(BatchFormat|BatchFunction|BatchOptions|Compute|Concurrency|FileSystem|Mode|NumpyBatch)",
    ),
    ("py:class", r"(OnError|Path|Paths|Row|RowFunction|Seed|Shuffle|Strategy)"),
    ("py:class", r"(dict|tuple|list)\[\w+"),  # what Sphinx makes of a string that is a type
    # Type variables, and types that the code keeps for itself.
    (
        "py:class",
        r"(.*\.pool\.[RT]|P|R|T|U|Facts|Node|RunRequest|Context|NumReturns|TaskOptions|_\w+|.*\._\w+)",
    ),
    (
        "py:class",
        r".*\.(WriteReturnType|BlockType|StatComputationPlan|BatchFormat|Deal|page\.\w+\.\w+)",
    ),
]
language = "en"
default_role = "code"  # `name` in a docstring

# ---- Markdown: headings are targets of links ([text](page.md#heading)), :::{note} is a directive.
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4

# ---- Python
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autosummary_generate = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# ---- C
HEADERS = os.path.join(ROOT, "build", "site-headers")
headers.write(
    (os.path.join(ROOT, "src", f"{n}.h") for n in ("skate", "skate_data", "skate_graph")), HEADERS
)
hawkmoth_root = HEADERS
# The package libclang brings the library, and gcc says where headers are: there may be no clang.
clang.cindex.Config.set_library_path(os.path.join(os.path.dirname(clang.__file__), "native"))
_gcc = subprocess.run(
    ["gcc", "-E", "-v", "-x", "c", os.devnull],
    env={**os.environ, "LC_ALL": "C"},
    check=True,
    capture_output=True,
    text=True,
)
_folders = _gcc.stderr.partition("#include <...> search starts here:\n")[2]
hawkmoth_autoconf = []  # it would ask clang
hawkmoth_clang = ["-std=c11"]
for _folder in _folders.partition("End of search list")[0].split("\n"):
    if _folder.strip():
        hawkmoth_clang += ["-isystem", _folder.strip()]

# ---- Pages
html_theme = "pydata_sphinx_theme"
html_title = f"skate {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {name: [] for name in ("index", "performance/index", "security/index")}
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


def _skip_member(app, what, name, obj, skip, options):
    """Leaves out what a class has taken from elsewhere, such as a built-in function."""
    if getattr(obj, "__module__", None) == "builtins":
        return True
    # fields of a named tuple: the text of its class has them
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def _unlink_builtins(app, doctree):
    """Types such as str and bytes are no links: Sphinx would find Expr.str and the like for them."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link.get("refdomain") == "py" and hasattr(builtins, link.get("reftarget", "")):
            link.replace_self(nodes.Text(link["reftarget"]))


def setup(app):
    app.connect("autodoc-skip-member", _skip_member)
    app.connect("doctree-read", _unlink_builtins)
    app.connect("hawkmoth-process-docstring", lambda app, lines, *_: headers.to_rest(lines))
