"""read_images: image files as arrays. values/pictures.py decodes them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Unpack

from skate._deps import PIL, Image
from skate.data.files.reading import read_bytes
from skate.data.read.files import file_source, gathered, named, unreadable
from skate.data.read.options import FileOptions, StreamOptions, takes_files
from skate.data.read.source import Source
from skate.data.values import batch as _batch
from skate.data.values import pictures

if TYPE_CHECKING:
    from skate.data.typed import Paths


EXTENSIONS = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif", "webp"]


@takes_files(file_extensions=EXTENSIONS)
def read_images(
    paths: Paths,
    *,
    arrow_open_file_args: dict[str, Any] | None = None,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    crop: tuple[int, int, int, int] | Literal["center"] | None = None,
    decoder: Literal["fast", "pillow"] | None = None,
    **options: Unpack[FileOptions],
) -> Source:
    """A Dataset with one row for each image: column "image", an array (height, width[, channels])
    of uint8.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        arrow_open_file_args: Arguments of pyarrow's open_input_stream, such as compression.
        size: (height, width) to resize to; ValueError unless both are above 0.
        mode: Pillow's mode to convert to, such as "RGB" or "L".
        crop: The region that is cut out before resizing: (top, left, height, width) in pixels, or
            "center": the largest region in the middle with the proportions of size. (Ray has no
            such argument.)
        decoder: None: exactly Pillow's pixels, by a faster decoder where possible (JPEG and PNG;
            stats() says how many images Pillow decoded); "fast": JPEG files at least twice as large
            as size are decoded at a half, a quarter or an eighth of their size, with pixels that
            differ by 1 on average; "pillow": always Pillow. (Ray has no such argument.)
        options: See FileOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        ImportError: The package Pillow is not installed.
        PIL.UnidentifiedImageError: A file is no image; see on_error.
        ValueError: An option has another value; or the crop is not within an image, see on_error.
    """
    given: StreamOptions = {**options, "arrow_open_stream_args": arrow_open_file_args}
    want = tuple(pictures.wanted(size, mode, crop, decoder))
    return file_source("ReadImage", "images", paths, {"by_settings": True, "want": want}, given)


def __getattr__(name: str) -> Any:
    """Makes UnidentifiedImageError, the error for a file that Pillow does not recognise. It is a
    ValueError, as in Ray, and Pillow's own class of that name. It is made at its first use, since
    only readers of images import Pillow."""
    if name != "UnidentifiedImageError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    made = type(
        name,
        (ValueError, PIL.UnidentifiedImageError),
        {"__module__": __name__, "__doc__": "A file that is no picture Pillow knows."},
    )
    return globals().setdefault(name, made)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    want, files = pictures.Wanted(*params["want"]), pickle.loads(task.unit)
    limit = min(task.target, 4 << 20)
    stack, of, held = pictures.Stack(len(files), limit), list[str](), 0

    def batch() -> list[Any]:
        task.rows_of = of
        return [
            gathered(params, rb, of)
            for rb in _batch.from_batch({"image": stack.column()}, "read_images")
        ]

    for k, path in enumerate(files):
        task.source, task.source_row = path, None
        try:
            picture, fell_back = pictures.decode(
                read_bytes(params.get("fs"), path), want, stack.make
            )
        except Image.UnidentifiedImageError:
            unknown = __getattr__("UnidentifiedImageError")
            e = unknown(f"read_images {path}: cannot identify image file")
            unreadable(params, task, e, path)
            continue
        except Exception as e:
            unreadable(params, task, named(e, "read_images", path), path)
            continue
        task.fallbacks[0] += fell_back
        stack.add(picture)
        of.append(path)
        held += picture.nbytes
        if held >= limit:
            yield from batch()
            stack, of, held = pictures.Stack(len(files) - k - 1, limit), [], 0
    if of:
        yield from batch()
