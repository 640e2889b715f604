"""libskate keeps the interface that tests/c/abi.txt lists (tests/abi.py)."""

import re
from pathlib import Path

from scripts import script

ROOT = Path(__file__).resolve().parents[3]
abi = script("tests/abi.py")


def test_the_interface_is_the_kept_one():
    gone, new = abi.differences(abi.KEPT.read_text().splitlines(), abi.interface())
    assert not gone, "\n".join(["gone or changed:", *gone, abi.ADVICE])
    assert not new, "\n".join(["new: run ./dev abi, which writes them into tests/c/abi.txt", *new])


def test_what_headers_declare_is_exported_and_nothing_else():
    lines = [line for h in abi.headers() for line in abi.declared(h.read_text())[0]]
    functions = {
        line.partition("(")[0].split()[-1] for line in lines if line.startswith("function")
    }
    assert {s.split()[1].partition("@")[0] for s in abi.exported()} == functions
    assert all(s.endswith("@SKATE_0") for s in abi.exported())


def test_the_header_has_the_version_of_the_project():
    project = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'^version = "(\d+)\.(\d+)\.(\d+)"$', project, re.M)
    assert found
    header = (ROOT / "src" / "skate.h").read_text()
    for name, value in zip(("MAJOR", "MINOR", "PATCH"), found.groups(), strict=True):
        assert f"#define SKATE_VERSION_{name} {value}\n" in header, f"{name} is not {value}"
    assert f'#define SKATE_VERSION "{".".join(found.groups())}"\n' in header


def test_what_a_change_is():
    before = """
#define SKATE_API __attribute__((visibility("default")))
enum { SKATE_OK = 0, SKATE_ENOMEM = -1 };
struct skate_x { /* a comment; with a semicolon */
    const void *data; // int gone;
    double priv[5];
};
typedef struct {
    uint64_t id, ready;
} skate_y;
SKATE_API int skate_f(struct skate_x *x, const void *const *run, double priv[2], unsigned n);
SKATE_API void skate_g(void);
"""
    lines, enums, structs = abi.declared(before)
    assert lines == [
        "function int skate_f(struct skate_x *, const void *const *, double [2], unsigned)",
        "function void skate_g(void)",
    ]
    assert enums == ["SKATE_OK", "SKATE_ENOMEM"]
    assert structs == {
        "struct skate_x": [("const void *", "data"), ("double[5]", "priv")],
        "skate_y": [("uint64_t", "id"), ("uint64_t", "ready")],
    }
    renamed = before.replace("*x,", "*other,").replace("skate_g(", "skate_h(")
    gone, new = abi.differences(lines, abi.declared(renamed)[0])
    assert gone == ["function void skate_g(void)"] and new == ["function void skate_h(void)"]


def test_a_struct_that_only_the_library_makes_may_grow():
    def size(name, n, aligned=8):
        return f"struct {name}: {n} bytes, aligned to {aligned}"

    def gone(name, kept, now, aligned=8):
        return abi.differences([size(name, kept)], [size(name, now, aligned)])[0]

    assert gone("skate_progress", 104, 120) == []
    assert gone("skate_progress", 104, 96) and gone("skate_progress", 104, 120, 16)
    assert gone("skate_opts", 104, 120)
    field = "field skate_progress.done: bool at 96"
    moved = [size("skate_progress", 120), "field skate_progress.done: bool at 104"]
    assert abi.differences([size("skate_progress", 104), field], moved)[0] == [field]
