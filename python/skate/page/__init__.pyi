# The public names, each with where it is defined: for type checkers, and read by _lazy.Names.
from skate.page import driver as driver
from skate.page.command import show as show
from skate.page.server import Page as Page
from skate.page.server import serve as serve
