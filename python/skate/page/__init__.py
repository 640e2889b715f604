"""A page for the browser that shows a run while it goes on, and after it: `skate page`, SKATE_PAGE=1
and DataContext.page open it. docs/guides/page.md is for its readers."""

from skate import _lazy

_names = _lazy.Names(__name__)
__getattr__, __dir__ = _names.get, _names.dir
