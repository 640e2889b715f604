"""Values: Arrow columns as NumPy arrays, Python objects and DataFrames, and back.

The modules in this folder import Arrow and NumPy when they are loaded, which takes 100 ms; a driver
should spend this time while its workers start. So `from skate.data.values import batch` returns a
stand-in, which loads the module, and with it skate's Arrow types, when an attribute is first read.
"""

from typing import TYPE_CHECKING

from skate._deps import stand_in

if TYPE_CHECKING:
    from skate.data.values import batch as batch
    from skate.data.values import cast as cast
    from skate.data.values import cells as cells
    from skate.data.values import comparison as comparison
    from skate.data.values import encoded_text as encoded_text
    from skate.data.values import flat as flat
    from skate.data.values import frame_groups as frame_groups
    from skate.data.values import frames as frames
    from skate.data.values import from_arrow as from_arrow
    from skate.data.values import gathered as gathered
    from skate.data.values import marks as marks
    from skate.data.values import missing as missing
    from skate.data.values import numpy_batch as numpy_batch
    from skate.data.values import row_dicts as row_dicts
    from skate.data.values import selection as selection
    from skate.data.values import tensor_types as tensor_types
    from skate.data.values import to_arrow as to_arrow
    from skate.data.values import types as types
else:
    batch = stand_in("skate.data.values.batch")
    cast = stand_in("skate.data.values.cast")
    cells = stand_in("skate.data.values.cells")
    comparison = stand_in("skate.data.values.comparison")
    encoded_text = stand_in("skate.data.values.encoded_text")
    flat = stand_in("skate.data.values.flat")
    frame_groups = stand_in("skate.data.values.frame_groups")
    frames = stand_in("skate.data.values.frames")
    from_arrow = stand_in("skate.data.values.from_arrow")
    gathered = stand_in("skate.data.values.gathered")
    marks = stand_in("skate.data.values.marks")
    missing = stand_in("skate.data.values.missing")
    numpy_batch = stand_in("skate.data.values.numpy_batch")
    row_dicts = stand_in("skate.data.values.row_dicts")
    selection = stand_in("skate.data.values.selection")
    tensor_types = stand_in("skate.data.values.tensor_types")
    to_arrow = stand_in("skate.data.values.to_arrow")
    types = stand_in("skate.data.values.types")
