"""What a package index shows of skate."""

import hashlib
import os
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def test_what_a_package_index_shows():
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        p = tomllib.load(f)["project"]
    assert (
        p["license"] == "Apache-2.0"
        and p["license-files"] == ["LICENSE"]
        and p["authors"]
        and p["keywords"]
    )
    assert "Typing :: Typed" in p["classifiers"] and os.path.exists(
        os.path.join(ROOT, "python", "skate", "py.typed")
    )
    with open(os.path.join(ROOT, "LICENSE"), "rb") as f:  # the text as the foundation publishes it
        assert (
            hashlib.sha256(f.read()).hexdigest()
            == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
        )
