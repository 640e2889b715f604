"""Exoshuffle's applications in examples/ run at small sizes and print the expected results."""

import re

from test_examples import run


def numbers(text: str, pattern: str):
    found = re.search(pattern, text)
    assert found, text
    return [float(x) for x in found.groups()]


def test_page_views():
    """The program itself checks that the last online results equal the plain ones."""
    r = run(
        "examples/page_views.py",
        "--partitions",
        "12",
        "--views",
        "20000",
        "--rounds",
        "4",
        "--reducers",
        "3",
    )
    assert r.returncode == 0, r.stderr
    for name in ("online", "skate.data"):
        first, half = numbers(
            r.stdout,
            name + r": first of \d+ results after .*, error ([\d.]+)\), half-way ([\d.]+), end",
        )
        assert "240,000 views" in r.stdout and 0 < half < first < 2


def test_page_views_refuses_more_rounds_than_partitions():
    r = run("examples/page_views.py", "--partitions", "3", "--rounds", "4")
    assert r.returncode == 2 and "rounds <= partitions" in r.stderr


def test_shuffle_loader():
    """The rows are sorted by their label: without mixing, the model would learn only the last
    label."""
    r = run(
        "examples/shuffle_loader.py",
        "--rows",
        "20000",
        "--files",
        "8",
        "--epochs",
        "2",
        "--step",
        "0",
        "--batch",
        "200",
    )
    assert r.returncode == 0, r.stderr
    ends = {
        mode: numbers(r.stdout, rf"{mode} .* ([\d.]+) after 2")[0]
        for mode in ("none", "partial", "full")
    }
    assert ends["full"] > ends["partial"] > ends["none"] and ends["full"] > 0.8
