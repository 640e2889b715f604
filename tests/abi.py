"""The binary interface of libskate, as tests/c/abi.txt keeps it.

Programs that were linked with an older libskate.so.0 must go on running, so what the file says may
be added to and not be changed: exported symbols with their versions, the types of functions, values
of constants, sizes of structs and where their fields are. Structs that only the library makes (GROWS)
may get fields at their end. `./dev abi` compares the last build
(build/dev) with the file and writes what is new into it; `./dev abi --break` writes all of it, which
goes with a new soname. tests/py/app/test_abi.py holds the file.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "c" / "abi.txt"
LIBRARY = ROOT / "build" / "dev" / "lib" / "libskate.so"
# Programs get these by a pointer from the library, with their size in them, and never make one.
GROWS = {"skate_progress"}
ADVICE = """These are part of the interface that programs were linked with. Restore them: leave a struct and
a function as they are, and add a new one beside it. If the interface has to break, raise SOVERSION
in CMakeLists.txt and the node in cmake/libskate.map, rename debian/libskate0*, and run
    ./dev abi --break"""


def headers():
    """The public headers that CMakeLists.txt installs."""
    text = (ROOT / "CMakeLists.txt").read_text()
    found = re.search(r"set\(SKATE_PUBLIC_HEADERS ([^)]*)\)", text)
    assert found, "CMakeLists.txt has no set(SKATE_PUBLIC_HEADERS ...)"
    return [ROOT / "src" / name for name in found[1].split()]


def without_names(parameters):
    """Parameters by their types: names of parameters may change."""
    out = []
    for p in parameters.split(","):
        p = " ".join(p.split())
        named = re.match(r"(.*[\s*])(\w+)((?:\[\w*\])*)$", p)
        bare = {"int", "char", "short", "long", "float", "double", "void", "unsigned"}
        if (
            named
            and named[2] not in bare
            and not re.search(r"\b(struct|enum|union|const)\s*$", named[1])
        ):
            p = (named[1] + named[3]).strip()
        out.append(p)
    return ", ".join(out)


def fields(body):
    """(type, name) of each field of a struct."""
    for one in filter(str.strip, body.split(";")):
        callback = re.match(r"\s*([^(]*?)\s*\(\*(\w+)\)\((.*)\)\s*$", one, re.S)
        if callback:
            yield f"{' '.join(callback[1].split())} (*)({without_names(callback[3])})", callback[2]
            continue
        first, *more = one.split(",")
        found = re.match(r"\s*(.*?[\s*])(\w+)\s*((?:\[[^]]*\])*)\s*$", first, re.S)
        assert found, f"a field that tests/abi.py cannot read: {one!r}"
        kind = " ".join(found[1].split())
        yield kind + found[3], found[2]
        for name in more:
            yield kind.rstrip("* ") + " *" * name.count("*"), name.strip(" *")


def declared(text):
    """The lines of a header that a compiler is not asked for, then the enums' names and the
    structs: {how C names the type: [(type, name) of a field]}."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    lines = [
        f"macro {name}" for name in re.findall(r"^#define (SKATE_\w+\([\w, .]*\))", text, re.M)
    ]
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    enums, structs = [], {}
    for body in re.findall(r"\benum\s*\w*\s*{(.*?)}", text, re.S):
        enums += [e.split("=")[0].strip() for e in body.split(",") if e.strip()]
    for name, body in re.findall(r"^struct (\w+)\s*{(.*?)^};", text, re.S | re.M):
        structs[f"struct {name}"] = list(fields(body))
    for body, name in re.findall(r"^typedef struct\s*\w*\s*{(.*?)}\s*(\w+);", text, re.S | re.M):
        structs[name] = list(fields(body))
    for ret, name, params in re.findall(
        r"SKATE_API\s([^;{(]*?)(\w+)\(([^;{]*?)\)[^;{()]*(?:__attribute__\(.*?\)\s*)?;", text, re.S
    ):
        lines.append(f"function {' '.join(ret.split())} {name}({without_names(params)})")
    for ret, name, params in re.findall(r"^typedef ([^;{]*?)\(\*(\w+)\)\(([^;]*)\);", text, re.M):
        lines.append(f"type {name}: {ret.strip()} (*)({without_names(params)})")
    return lines, enums, structs


def laid_out(names, enums, structs, cc="cc"):
    """What a compiler makes of the enums and the structs."""
    body = [f'printf("constant {e} = %d\\n", (int){e});' for e in enums]
    for kind, its in structs.items():
        bare = kind.removeprefix("struct ")
        body.append(
            f'printf("struct {bare}: %zu bytes, aligned to %zu\\n", sizeof({kind}), _Alignof({kind}));'
        )
        body += [
            f'printf("field {bare}.{name}: {t} at %zu\\n", offsetof({kind}, {name}));'
            for t, name in its
        ]
    includes = "".join(f'#include "{name}"\n' for name in names)
    text = (
        f"#include <stdio.h>\n#include <stddef.h>\n{includes}int main(void) {{\n"
        + "\n".join(body)
        + "\n}\n"
    )
    with tempfile.TemporaryDirectory() as tmp:
        source, program = Path(tmp, "abi.c"), Path(tmp, "abi")
        source.write_text(text)
        subprocess.run([cc, "-std=c11", source, "-o", program], check=True)
        return subprocess.run(
            [program], check=True, capture_output=True, text=True
        ).stdout.splitlines()


def exported(library=LIBRARY):
    out = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    symbols = [line.split()[1:] for line in out.splitlines()]
    return [f"symbol {name.replace('@@', '@')}" for kind, name in symbols if kind != "A"]


def interface():
    """The lines of the interface as it is now."""
    lines, enums, structs = [], [], {}
    for h in headers():
        some, e, s = declared(h.read_text())
        lines += some
        enums += e
        structs |= s
    return sorted(lines + exported()) + laid_out(headers(), enums, structs)


def differences(kept, now):
    """(lines that are gone or changed, lines that are new). A struct of GROWS that is larger now is
    new, and its old size is not gone."""
    gone, new = [x for x in kept if x not in now], [x for x in now if x not in kept]
    sizes = {name: size for name, size in map(sized, new) if name in GROWS}
    return [x for x in gone if not sizes.get(sized(x)[0], 0) > sized(x)[1]], new


def sized(line):
    """(name, bytes) of a line about the size of a struct, else (None, 0)."""
    found = re.fullmatch(r"struct (\w+): (\d+) bytes, aligned to 8", line)
    return (found[1], int(found[2])) if found else (None, 0)


def main(args):
    now = interface()
    gone, new = differences(KEPT.read_text().splitlines() if KEPT.exists() else [], now)
    for sign, lines in (("-", gone), ("+", new)):
        for line in lines:
            print(sign, line)
    if gone and args != ["--break"]:
        sys.exit(f"The interface lost {len(gone)} lines of {KEPT.relative_to(ROOT)}.\n{ADVICE}")
    KEPT.write_text("\n".join(now) + "\n")
    print(f"{KEPT.relative_to(ROOT)}: {len(now)} lines, {len(new)} of them new")


if __name__ == "__main__":
    main(sys.argv[1:])
