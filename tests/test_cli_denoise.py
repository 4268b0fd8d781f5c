"""``papilio denoise``: pictures in and out."""

import json

import numpy as np
import pytest
from PIL import Image

import papilio as pp
from papilio.cli.inputs import read_pixels as read_image

SIGMA = 20
DCT = pp.images.redundant_dct(8, 16)


@pytest.fixture
def here(here):
    DCT.save("dct.npz")
    return here


def noisy(shape, top=255):
    i, j = np.indices(shape[:2])
    grey = (0.3 + 0.4 * (i // 9 % 2) + 0.005 * j) * top
    image = grey.reshape(*shape[:2], *[1] * (len(shape) - 2)) * np.ones(shape)
    image += SIGMA / 255 * top * np.random.default_rng(0).standard_normal(shape)
    return np.clip(np.rint(image), 0, top)


def save(name, pixels):
    Image.fromarray(pixels).save(name)


def load(name):
    with Image.open(name) as image:
        return np.asarray(image)


def test_the_noise_is_estimated_without_sigma(papilio):
    before = noisy((64, 64)).astype(np.uint8)
    save("noisy.png", before)
    code, out, err = papilio("denoise", "noisy.png", "-o", "clean.png", "--dictionary", "dct.npz", "--json")
    sigma = json.loads(out)["sigma"]
    assert code == 0
    assert sigma == pytest.approx(SIGMA, rel=0.1)
    assert f"the noise was estimated: --sigma {sigma:.3g}" in err
    np.testing.assert_array_equal(load("clean.png"), pp.images.denoise(before, sigma, DCT))
    save("flat.png", np.full((8, 8), 7, np.uint8))
    code, _, err = papilio("denoise", "flat.png", "-o", "clean.png", "--dictionary", "dct.npz")
    assert code == 2
    assert "give its standard deviation with --sigma" in err


@pytest.mark.parametrize("end", ["png", "tif"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((24, 30), np.uint8), ((30, 24), np.uint16), ((24, 24, 3), np.uint8)],
    ids=["grey", "16 bits", "colour"],
)
def test_images_keep_their_depth_and_colours(papilio, shape, dtype, end):
    top = np.iinfo(dtype).max
    before = noisy(shape, top).astype(dtype)
    save(f"noisy.{end}", before)
    sigma = SIGMA * top / 255
    code, out, err = papilio(
        "denoise", f"noisy.{end}", "-o", f"clean.{end}", "--sigma", sigma, "--dictionary", "dct.npz"
    )
    assert (code, err) == (0, "")
    assert f"{dtype.__name__}" in out
    after = load(f"clean.{end}")
    assert after.dtype == dtype
    np.testing.assert_array_equal(after, pp.images.denoise(before, sigma, DCT))


@pytest.mark.parametrize("channels", [2, 4])
def test_transparency_is_kept(papilio, channels):
    before = noisy((20, 20, channels)).astype(np.uint8)
    save("noisy.png", before)
    assert papilio("denoise", "noisy.png", "-o", "clean.png", "--sigma", SIGMA, "--dictionary", "dct.npz")[0] == 0
    after = load("clean.png")
    assert after.shape == before.shape
    np.testing.assert_array_equal(after[..., -1], before[..., -1])
    assert (after[..., 0] != before[..., 0]).any()


def test_arrays_may_hold_anything_that_denoise_takes(papilio):
    before = noisy((20, 20)) / 255
    np.save("noisy.npy", before)
    code, out, _ = papilio(
        *("denoise", "noisy.npy", "-o", "clean.npy", "--sigma", SIGMA / 255, "--dictionary", "dct.npz", "--json")
    )
    assert code == 0
    facts = json.loads(out)
    assert (facts["shape"], facts["dtype"], facts["output"]) == ([20, 20], "float64", "clean.npy")
    np.testing.assert_allclose(np.load("clean.npy"), pp.images.denoise(before, SIGMA / 255, DCT))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("none.png", "-o", "out.png", "--sigma", 1), "none.png: there is no such file"),
        (("noisy.png", "-o", "out.jpg", "--sigma", 1), "out.jpg: the output must end in .png"),
        (("noisy.txt", "-o", "out.png", "--sigma", 1), "noisy.txt: unknown format"),
        (("noisy.png", "-o", "out.png", "--sigma", -1), "sigma must be a finite real number of at least 0"),
        (("noisy.png", "-o", "out.png", "--sigma", 1, "--stride", 9), "stride"),
        (("small.png", "-o", "out.png", "--sigma", 1), "image must have at least 8×8"),
        (("float.npy", "-o", "out.png", "--sigma", 1), "cannot hold grey pixels of float64; .npy can"),
        (("channels.npy", "-o", "out.png", "--sigma", 1), "holds (height, width) or (height, width, 3) pixels"),
        (("broken.png", "-o", "out.png", "--sigma", 1), "broken.png"),
        (("deep.png", "-o", "out.png", "--sigma", 1), "16 bits are not accepted"),
        (("clear.png", "-o", "out.png", "--sigma", 1), "transparency beside grey pixels of 16 bits"),
        (("noisy.png", "-o", "out.png", "--sigma", 1, "--dictionary", "dct.npz", "--atoms", 4), "--n-components"),
        (("noisy.png", "-o", "out.png", "--sigma", 1, "--complexity", 0.001), "complexity must be at least"),
    ],
)
def test_invalid_requests_print_one_line_and_leave_no_file(papilio, here, words, named):
    save("noisy.png", noisy((16, 16)).astype(np.uint8))
    save("small.png", noisy((7, 16)).astype(np.uint8))
    np.save("float.npy", noisy((16, 16)))
    np.save("channels.npy", noisy((16, 16, 5)).astype(np.uint8))
    (here / "broken.png").write_bytes((here / "noisy.png").read_bytes()[:60])
    (here / "deep.png").write_bytes(png_of_16_bits(3))
    (here / "clear.png").write_bytes(png_of_16_bits(1, transparent=True))
    code, out, err = papilio("denoise", *words)
    assert code == 2
    assert out == ""
    assert named in err
    assert err.count("\n") == 1
    assert not list(here.glob("out.*"))


def png_of_16_bits(channels, transparent=False):
    """A PNG file of 8×8 white pixels, grey or in colour, perhaps with white as transparent: Pillow writes none."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 8, 8, 16, 2 if channels == 3 else 0, 0, 0, 0)
    rows = (b"\0" + b"\xff" * 16 * channels) * 8
    clear = chunk(b"tRNS", b"\xff" * 2 * channels) if transparent else b""
    parts = (chunk(b"IHDR", header), clear, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("width", [53, 72])
def test_the_stride_of_a_bmp_is_not_mistaken_for_16_bit_colour(here, width):
    pixels = noisy((16, width, 3)).astype(np.uint8)
    save("wide.bmp", pixels)
    np.testing.assert_array_equal(read_image("wide.bmp").pixels, pixels)


def test_exif_rotation_is_applied(here):
    pixels = noisy((16, 24)).astype(np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 6  # This value means a quarter turn.
    Image.fromarray(pixels).save("turned.png", exif=turned)
    np.testing.assert_array_equal(read_image("turned.png").pixels, np.rot90(pixels, -1))
