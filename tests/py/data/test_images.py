"""Pictures: the C decoder gives the same pixels as Pillow, to the last bit; Pillow decodes those
that it refuses, and these are counted; damaged files are errors."""

import io
import random

import numpy as np
import pytest
import skate.data as sd
from PIL import Image, features
from skate.data.values import pictures
from skate.data.values.pictures import Wanted, by_pillow, decode

# limits for the error of decoder="fast" in a channel (docs/design/images.md measured 9 and 1.2)
FAST_MOST, FAST_MEAN = 12, 1.5


def picture(height, width, channels=3, noise=6):
    y, x = np.mgrid[0:height, 0:width]
    a = np.stack(
        [
            127 + 60 * np.sin(x / (17 + 9 * k) + k) + 40 * np.cos(y / (11 + 7 * k))
            for k in range(channels)
        ],
        2,
    )
    a = (a + np.random.default_rng(height).normal(0, noise, a.shape)).clip(0, 255).astype(np.uint8)
    return a[..., 0] if channels == 1 else a


def encoded(array, fmt, mode=None, **options):
    im = array if isinstance(array, Image.Image) else Image.fromarray(array)
    to = io.BytesIO()
    (im.convert(mode) if mode else im).save(to, fmt, **options)
    return to.getvalue()


def test_the_codecs_of_this_pillow_are_used():
    assert features.version("libjpeg_turbo"), "this Pillow has another JPEG library"
    assert (
        pictures._codecs() == (True, pictures._codecs().rows_first)
        and pictures._codecs().rows_first is not None
    )


TAKEN = {
    "jpeg": encoded(picture(75, 101), "JPEG"),
    "jpeg without subsampling": encoded(picture(64, 48), "JPEG", subsampling=0, quality=95),
    "jpeg progressive": encoded(picture(50, 71), "JPEG", progressive=True),
    "jpeg grey": encoded(picture(40, 33, 1), "JPEG"),
    "jpeg turned by exif": encoded(
        picture(31, 60),
        "JPEG",
        exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00",
    ),
    "png": encoded(picture(45, 60), "PNG"),
    "png grey": encoded(picture(45, 60, 1), "PNG"),
}
WANTS = [
    Wanted(size, mode, crop)
    for size in (None, (20, 20), (45, 7), (7, 45), (100, 130), (200, 31), (75, 101))
    for mode in (None, "RGB", "L")
    for crop in (None, (3, 5, 20, 17), "center")
    if size or crop != "center"
]


@pytest.mark.parametrize("name", TAKEN)
def test_the_bytes_are_pillows(name):
    for want in WANTS:
        got, fell_back = decode(TAKEN[name], want, pictures._empty)
        truth = by_pillow(TAKEN[name], want)
        assert not fell_back and got.dtype == truth.dtype and np.array_equal(got, truth), (
            name,
            want,
        )


def test_random_sizes_are_pillows():
    draw = random.Random(7)
    for i in range(60):
        data = encoded(
            picture(draw.randint(1, 90), draw.randint(1, 90), draw.choice((1, 3))),
            draw.choice(("JPEG", "PNG")),
        )
        want = Wanted((draw.randint(1, 120), draw.randint(1, 120)), draw.choice((None, "RGB", "L")))
        got, fell_back = decode(data, want, pictures._empty)
        assert not fell_back and np.array_equal(got, by_pillow(data, want)), (i, want)


def left_to_pillow():
    rgb = Image.fromarray(picture(30, 40))
    yield "cmyk", encoded(rgb, "JPEG", "CMYK"), Wanted()
    yield "palette", encoded(rgb, "PNG", "P"), Wanted((9, 9), "RGB")
    yield (
        "16 bits",
        encoded((np.arange(900).reshape(30, 30) * 70).astype(np.uint16), "PNG"),
        Wanted(),
    )
    yield "one bit", encoded(rgb, "PNG", "1"), Wanted()
    yield "grey and alpha", encoded(rgb, "PNG", "LA"), Wanted()
    yield "alpha, resized", encoded(rgb, "PNG", "RGBA"), Wanted((9, 9))
    yield "transparent colour", encoded(rgb, "PNG", transparency=(1, 2, 3)), Wanted()
    yield "gif", encoded(rgb, "GIF"), Wanted((9, 9), "RGB")
    yield "bmp", encoded(rgb, "BMP"), Wanted(None, "L")
    yield "another mode", encoded(rgb, "JPEG"), Wanted(None, "HSV")


def test_what_is_left_to_pillow_is_counted(tmp_path):
    cases = list(left_to_pillow())
    for name, data, want in cases:
        got, fell_back = decode(data, want, pictures._empty)
        truth = by_pillow(data, want)
        assert fell_back and got.dtype == truth.dtype and np.array_equal(got, truth), name
        assert decode(data, want._replace(decoder="pillow"), pictures._empty)[1] is False, (
            "it was asked for"
        )
    alpha = encoded(Image.fromarray(picture(30, 40)), "PNG", "RGBA")
    for mode in (None, "RGB"):
        got, fell_back = decode(alpha, Wanted(None, mode), pictures._empty)
        assert not fell_back and np.array_equal(got, by_pillow(alpha, Wanted(None, mode)))
    for i, data in enumerate([TAKEN["jpeg"], cases[0][1], TAKEN["png"], cases[7][1]]):
        (tmp_path / f"{i}.{'jpg' if i < 2 else 'png'}").write_bytes(data)
    ds = sd.read_images(str(tmp_path), size=(8, 9), mode="RGB").materialize()
    assert (
        ds.stats_dict()["fallbacks"] == 2
        and "Images that Pillow decoded, since the quicker decoder does not take them: 2"
        in ds.stats()
    )
    assert all(
        np.array_equal(a["image"], b["image"])
        for a, b in zip(
            ds.take_all(),
            sd.read_images(str(tmp_path), size=(8, 9), mode="RGB", decoder="pillow").take_all(),
            strict=True,
        )
    )


def test_fast_is_near():
    for height, width in ((300, 400), (601, 803)):
        for want in (
            Wanted((64, 64)),
            Wanted((64, 64), None, "center"),
            Wanted((100, 40), "RGB", (11, 21, 280, 290)),
        ):
            data = encoded(picture(height, width), "JPEG", quality=90)
            got, fell_back = decode(data, want._replace(decoder="fast"), pictures._empty)
            off = np.abs(got.astype(int) - by_pillow(data, want))
            assert (
                not fell_back and off.max() <= FAST_MOST and off.mean((0, 1)).max() <= FAST_MEAN
            ), (
                height,
                width,
                want,
                off.max(),
                off.mean((0, 1)),
            )
    small = encoded(picture(100, 120), "JPEG")  # less than twice as large as the requested size
    assert np.array_equal(
        decode(small, Wanted((60, 60), decoder="fast"), pictures._empty)[0],
        by_pillow(small, Wanted((60, 60))),
    )


def test_damaged_files_fail_as_in_pillow():
    draw = random.Random(3)

    def outcome(fn):
        try:
            return fn()
        except Exception as e:
            return type(e)

    for i in range(400):
        data = bytearray(TAKEN[draw.choice(list(TAKEN))])
        for _ in range(draw.randint(0, 3)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if draw.random() < 0.3:
            del data[draw.randrange(len(data)) :]
        want = Wanted(draw.choice((None, (20, 30))), draw.choice((None, "RGB")))
        got = outcome(lambda: decode(bytes(data), want, pictures._empty)[0])  # noqa: B023
        truth = outcome(lambda: by_pillow(bytes(data), want))  # noqa: B023
        assert got is truth if isinstance(truth, type) else np.array_equal(got, truth), i


def test_bad_files_and_their_paths(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.jpg").write_bytes(
            TAKEN["jpeg"] if i % 2 == 0 else TAKEN["jpeg"][: len(TAKEN["jpeg"]) * i // 4]
        )
    with pytest.raises(OSError, match=r"[13]\.jpg.*truncated"):
        sd.read_images(str(tmp_path)).take_all()
    ds = sd.read_images(str(tmp_path), size=(5, 6), on_error="quarantine").materialize()
    assert ds.count() == 2
    assert sorted(r["source"][-5:] for r in ds.errors().take_all()) == ["1.jpg", "3.jpg"]
    with pytest.raises(ValueError, match=r"0\.jpg.*the box .* is not within 75 x 101 pixels"):
        sd.read_images(str(tmp_path / "0.jpg"), crop=(70, 0, 10, 10)).take_all()


def test_decode_images(tmp_path):
    rows = [
        {"im": TAKEN["jpeg"], "i": 0},
        {"im": None, "i": 1},
        {"im": TAKEN["png"], "i": 2},
        {"im": TAKEN["jpeg"], "i": 3},
    ]
    got = sd.from_items(rows).decode_images("im", size=(12, 10), mode="RGB").take_all()
    assert [r["i"] for r in got] == [0, 1, 2, 3] and got[1]["im"] is None
    assert all(
        np.array_equal(got[i]["im"], by_pillow(rows[i]["im"], Wanted((12, 10), "RGB")))
        for i in (0, 2, 3)
    )
    one_shape = sd.from_items(rows[:1] * 70).decode_images("im", mode="RGB", crop=(0, 0, 7, 8))
    assert one_shape.take_batch(70)["im"].shape == (70, 7, 8, 3)
    mixed = sd.from_items([rows[0], rows[2]]).decode_images("im").take_all()
    assert [r["im"].shape for r in mixed] == [(75, 101, 3), (45, 60, 3)]
    bad = (
        sd.from_items([*rows, {"im": b"no picture", "i": 4}])
        .decode_images("im", size=(2, 2), mode="L", on_error="quarantine")
        .materialize()
    )
    assert bad.count() == 4 and [r["row"]["i"] for r in bad.errors().take_all()] == [4]
    with pytest.raises(Image.UnidentifiedImageError):
        sd.from_items([{"im": b"no picture"}]).decode_images("im").take_all()
    with pytest.raises(KeyError, match="no column 'x'"):
        sd.from_items(rows).decode_images("x")
    with pytest.raises(TypeError, match="of type int64, not of bytes"):
        sd.from_items(rows).decode_images("i").take_all()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": (0, 4)}, "size must be"),
        ({"crop": "center"}, "give size"),
        ({"crop": (1, 2, 0, 4)}, "crop must be"),
        ({"crop": "middle", "size": (1, 1)}, "crop must be"),
        ({"decoder": "quick"}, "decoder must be"),
    ],
)
def test_options_that_are_none(tmp_path, options, says):
    with pytest.raises(ValueError, match=says):
        sd.read_images(str(tmp_path), **options)
    with pytest.raises(ValueError, match=says):
        sd.from_items([{"im": b""}]).decode_images("im", **options)
