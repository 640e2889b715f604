"""Decodes images into arrays (height, width[, channels]) of uint8, for read_images and
decode_images.

Pillow defines which bytes are an image and what its pixels are. src/image decodes JPEG and PNG in
half the time where its result equals Pillow's to the last bit; Pillow decodes the images that it
refuses, and these are counted (stats_dict()["fallbacks"]). It uses the libjpeg-turbo and the libpng of the
installed Pillow. Which axis Pillow resizes first depends on Pillow's version, so a small image is
resized once in each process to find out. decoder="fast" decodes a JPEG that is at least twice as
large as wanted at a half, a quarter or an eighth of its size, which gives other pixels
(docs/design/images.md).
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any, NamedTuple

from skate import _skate
from skate._deps import Image, PIL_imaging, PIL_imagingft, np

DECODERS = (None, "fast", "pillow")
_CHANNELS = {None: 0, "L": 1, "RGB": 3, "RGBA": 4}


class Wanted(NamedTuple):
    """The options for decoding images. size: (height, width); mode: Pillow's; crop: (top, left,
    height, width) or "center"; decoder: one of DECODERS."""

    size: tuple[int, int] | None = None
    mode: str | None = None
    crop: tuple[int, int, int, int] | str | None = None
    decoder: str | None = None


def wanted(size: Any, mode: Any, crop: Any, decoder: Any) -> Wanted:
    """Checks the options and makes the object; ValueError says what is wrong."""
    if size is not None and (len(size) != 2 or size[0] <= 0 or size[1] <= 0):
        raise ValueError(f"size must be (height, width), both over 0, not {size!r}")
    if crop == "center":
        if size is None:
            raise ValueError(
                'crop="center" cuts out the middle in the proportions of size: give size, or the box (top, left, height, width)'
            )
    elif crop is not None and (
        isinstance(crop, str) or len(crop) != 4 or min(crop[:2]) < 0 or min(crop[2:]) <= 0
    ):
        raise ValueError(
            f'crop must be (top, left, height, width) in pixels, or "center", not {crop!r}'
        )
    if decoder not in DECODERS:
        raise ValueError(f'decoder must be None, "fast" or "pillow", not {decoder!r}')
    box: Any = crop if crop is None or isinstance(crop, str) else tuple(map(int, crop))
    return Wanted(None if size is None else (int(size[0]), int(size[1])), mode, box, decoder)


def decode(data: Any, want: Wanted, make: Callable[[tuple[int, ...]], Any]) -> tuple[Any, bool]:
    """Returns (the image, whether Pillow decoded it as a fallback). make: makes an array of a given
    shape to decode into; Pillow makes its own array. Raises Pillow's errors."""
    asked = _asked(want)
    if asked is None:
        return by_pillow(data, want), want.decoder != "pillow"
    got = _skate.image_read(data, make, asked)
    return (by_pillow(data, want), True) if isinstance(got, str) else (got, False)


def by_pillow(data: Any, want: Wanted) -> Any:
    """The image as Pillow decodes it."""
    with Image.open(io.BytesIO(data)) as im:
        if want.crop is not None:
            top, left, height, width = (
                _middle(im.size, want.size) if isinstance(want.crop, str) else want.crop
            )
            if top + height > im.size[1] or left + width > im.size[0]:
                raise ValueError(
                    f"the box (top {top}, left {left}, height {height}, width {width}) is not within {im.size[1]} x {im.size[0]} pixels"
                )
            im = im.crop((left, top, left + width, top + height))
        if want.size is not None:
            im = im.resize((want.size[1], want.size[0]), Image.Resampling.BILINEAR)
        if want.mode is not None:
            im = im.convert(want.mode)
        return np.asarray(im)


def _middle(of: tuple[int, int], size: Any) -> tuple[int, int, int, int]:
    w, h = of
    height, width = max(1, min(h, w * size[0] // size[1])), max(1, min(w, h * size[1] // size[0]))
    return (h - height) // 2, (w - width) // 2, height, width


@functools.cache
def _asked(want: Wanted) -> tuple[Any, ...] | None:
    """The options as an argument of _skate.image_read; None: it cannot apply them."""
    codecs = _codecs()
    if (
        want.decoder == "pillow"
        or not codecs.any
        or want.mode not in _CHANNELS
        or (want.size is not None and codecs.rows_first is None)
    ):
        return None
    box = want.crop if isinstance(want.crop, tuple) else (0, 0, 0, 0)
    return (
        *(want.size or (0, 0)),
        *box,
        want.crop == "center",
        want.decoder == "fast",
        bool(codecs.rows_first),
        _CHANNELS[want.mode],
    )


class _Codecs(NamedTuple):
    any: bool
    # whether this version of Pillow resizes rows first; None: it has another rule
    rows_first: bool | None


@functools.cache
def _codecs() -> _Codecs:
    jpeg = _loaded(PIL_imaging, _skate.image_use_jpeg)
    try:
        png = _loaded(PIL_imagingft, _skate.image_use_png)
    except ImportError:  # this Pillow has no FreeType
        png = False
    if not jpeg and not png:
        return _Codecs(False, None)
    noise = (np.arange(48 * 40 * 3) * 7919 % 251).astype(np.uint8).reshape(48, 40, 3)
    to = io.BytesIO()
    Image.fromarray(noise).save(to, "JPEG" if jpeg else "PNG")
    sizes = ((9, 38), (41, 7))
    truth = [by_pillow(to.getvalue(), Wanted(size)) for size in sizes]
    for rows_first in (False, True):
        got = [
            _skate.image_read(
                to.getvalue(), _empty, (*size, 0, 0, 0, 0, False, False, rows_first, 0)
            )
            for size in sizes
        ]
        if all(np.array_equal(a, b) for a, b in zip(got, truth, strict=True)):
            return _Codecs(True, rows_first)
    return _Codecs(True, None)


def _loaded(module: Any, use: Callable[[str], str | None]) -> bool:
    at = getattr(module, "__file__", None)
    return at is not None and use(at) is None


def _empty(shape: tuple[int, ...]) -> Any:
    return np.empty(shape, np.uint8)


class Stack:
    """Collects images in one array as long as all have the same shape; n: the expected number of
    images; limit: the most bytes of the array."""

    def __init__(self, n: int, limit: int):
        self.expected, self.limit = n, limit
        self.all: Any = None
        self.pictures: list[Any] = []

    def make(self, shape: tuple[int, ...]) -> Any:
        """The array for the next image."""
        if self.all is None:
            size = 1
            for k in shape:
                size *= k
            self.all = np.empty(
                (max(1, min(self.expected, -(-self.limit // size))), *shape), np.uint8
            )
        at = len(self.pictures)
        return (
            self.all[at]
            if at < len(self.all) and self.all.shape[1:] == shape
            else np.empty(shape, np.uint8)
        )

    def add(self, picture: Any) -> None:
        """Adds an image, which may be the array from make() or another one."""
        self.pictures.append(picture)

    def column(self) -> Any:
        """All images: one array, or a list of arrays."""
        n = len(self.pictures)
        if (
            self.all is None
            or n > len(self.all)
            or any(p.shape != self.all.shape[1:] or p.dtype != np.uint8 for p in self.pictures)
        ):
            return self.pictures
        for i, p in enumerate(self.pictures):
            if p.base is not self.all:
                self.all[i] = p
        return self.all[:n]
