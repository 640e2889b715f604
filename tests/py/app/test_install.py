"""What `cmake --install` puts under a prefix, as users take it: by pkg-config, by find_package,
statically; with the warnings of their own compilers, without Python."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "dev"
CMAKE = next((c for c in (Path(sys.executable).with_name("cmake"),) if c.exists()), "cmake")
# nothing of the tree, of Python or of skate's settings
CLEAN = {"PATH": os.environ["PATH"], "LC_ALL": "C"}


def run(*args, env=(), **more):
    done = subprocess.run(
        [*map(str, args)],
        env={**CLEAN, **dict(env)},
        capture_output=True,
        text=True,
        timeout=120,
        **more,
    )
    assert done.returncode == 0, f"{args}\n{done.stdout}{done.stderr}"
    return done.stdout


def headers():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"set\(SKATE_PUBLIC_HEADERS ([^)]*)\)", text)[1].split()


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    at = tmp_path_factory.mktemp("install") / "prefix"
    run(CMAKE, "--install", BUILD, "--prefix", at)
    return at


@pytest.fixture(scope="module")
def lib(prefix):
    (pc,) = prefix.rglob("skate.pc")
    return pc.parent.parent


def example(page, folder):
    """The example of a page as a file."""
    text = (ROOT / "docs" / "man" / page).read_text()
    text = re.search(r"^\.Sh EXAMPLES\n\.Bd[^\n]*\n(.*?)^\.Ed", text, re.S | re.M)[1]
    path = folder / "example.c"
    path.write_text(text.replace("\\e", "\\"))
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return example("skate.3", tmp_path_factory.mktemp("program"))


def pkg_config(lib, *args):
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    out = run("pkg-config", *args, "skate", env={"PKG_CONFIG_PATH": str(lib / "pkgconfig")})
    return out.split()


def test_files_under_the_prefix(prefix, lib):
    there = {str(p.relative_to(prefix)) for p in prefix.rglob("*") if not p.is_dir()}
    where = lib.relative_to(prefix)
    want = {f"include/{h}" for h in headers()}
    want |= {f"bin/{t}" for t in ("gensort", "valsort", "cloudsort")}
    want |= {f"{where}/{f}" for f in ("libskate.so", "libskate.so.0", "libskate.a")}
    want |= {f"{where}/cmake/skate/skate{f}.cmake" for f in ("Config", "ConfigVersion", "Targets")}
    pages = {p.name for p in (ROOT / "docs" / "man").iterdir()} - {"skate.1"}  # of the wheel
    want |= {f"share/man/man{name[-1]}/{name}" for name in pages}
    want |= {f"share/doc/skate/examples/{p.name}" for p in (ROOT / "examples" / "c").iterdir()}
    assert want <= there and "share/man/man1/skate.1" not in there
    assert not [f for f in there if re.search(r"_skate|\.pyi?$|_int\.h", f)]


@pytest.mark.parametrize(
    ("page", "prints"),
    [("skate.3", "9\n"), ("skate_data.3", "500000\n"), ("skate_graph.3", "81\n")],
)
def test_pkg_config(lib, tmp_path, page, prints):
    program = example(page, tmp_path)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run("cc", *flags, program, "-o", tmp_path / "p", *pkg_config(lib, "--cflags", "--libs"))
    assert run(tmp_path / "p", env={"LD_LIBRARY_PATH": str(lib)}) == prints


def test_pkg_config_static(lib, program, tmp_path):
    done = subprocess.run(
        [
            "cc",
            "-static",
            program,
            "-o",
            tmp_path / "p",
            *pkg_config(lib, "--static", "--cflags", "--libs"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "cannot find -lc" in done.stderr:
        pytest.skip("no static libc")
    assert done.returncode == 0, done.stderr
    assert run(tmp_path / "p") == "9\n"


def test_find_package(prefix, program, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.21)
project(user LANGUAGES C)
find_package(skate 0.1 REQUIRED)
foreach(how IN ITEMS skate skate_static)
  add_executable(with_${{how}} {program})
  target_link_libraries(with_${{how}} PRIVATE skate::${{how}})
endforeach()
""")
    ninja = Path(sys.executable).with_name("ninja")
    make = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja.exists() else []
    run(CMAKE, *make, "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(CMAKE, "--build", tmp_path / "b")
    for how in ("skate", "skate_static"):
        assert run(tmp_path / "b" / f"with_{how}") == "9\n"
    assert "libskate" not in run("readelf", "-d", tmp_path / "b" / "with_skate_static")


@pytest.mark.parametrize(
    "compiler", ["gcc -std=c11", "clang -std=c11", "g++ -std=c++11", "clang++ -std=c++11"]
)
def test_headers_are_clean_for_users(prefix, tmp_path, compiler):
    cc, standard = compiler.split()
    if not shutil.which(cc):
        pytest.skip(f"no {cc}")
    source = tmp_path / ("user.cc" if "++" in cc else "user.c")
    source.write_text(
        "".join(f"#include <{h}>\n" for h in headers() * 2)
        + """
SKATE_TASK(same) { return skate_return(t, 0, skate_arg_data(t, 0, 0), 1); }
int main(int argc, char **argv) {
    struct skate_arg a = {{0}, 0, 0, {0, 0}};
    skate_ref r = {0};
    return skate_worker_main(argc, argv) || skate_init(0) || skate_submit("same", &a, 1, 1, 0, &r);
}
"""
    )
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run(cc, standard, *warnings, "-fsyntax-only", f"-I{prefix}/include", source)


def test_the_library_stands_alone(lib):
    """It needs the C library only, has its soname, and the static one takes no names but its own."""
    out = run("readelf", "-d", lib / "libskate.so")
    assert "[libskate.so.0]" in out
    needed = re.findall(r"NEEDED.*\[(.*?)\.so", out)
    assert set(needed) <= {
        "libc",
        "libm",
        "libpthread",
        "libdl",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }
    names = run("nm", "--defined-only", "-g", lib / "libskate.a")
    taken = {line.split()[2] for line in names.splitlines() if len(line.split()) == 3}
    assert "skate_init" in taken
    assert not [n for n in taken if not n.startswith(("skate_", "sk_"))]


def test_the_tools_find_their_library(prefix, tmp_path):
    run(prefix / "bin" / "gensort", "100", tmp_path / "in")
    (tmp_path / "out").mkdir()
    run(prefix / "bin" / "cloudsort", tmp_path / "out", tmp_path / "in")
    run(prefix / "bin" / "valsort", "-q", tmp_path / "out" / "part-00000")


def test_pages_name_each_function():
    for h in headers():
        text = (ROOT / "src" / h).read_text()
        page = (ROOT / "docs" / "man" / h).with_suffix(".3").read_text()
        names = re.findall(r"^SKATE_API [^(]*?(\w+)\(", text, re.M)
        assert names and not [n for n in names if not re.search(rf"\.F[no] {n}\b", page)]
    if shutil.which("mandoc"):
        run("mandoc", "-Tlint", "-Wwarning", *(ROOT / "docs" / "man").iterdir())
