"""The public headers as hawkmoth reads them.

Hawkmoth documents what has a comment `/** ... */` in front of it. Our headers are written for people
who read them: comments are plain, stand behind what they explain where there is room, and one
comment may be of several declarations. So `write()` makes copies of the headers in which each
declaration has a comment of its own in front: its own, or a pointer to the declaration whose comment
it shares, or an empty one. `to_rest()` makes reStructuredText of a comment: names of the interface
become links."""

import re
from pathlib import Path

TOKEN = re.compile(
    r"/\*.*?\*/|#(?:[^\n\\]|\\\n|\\.)*|\n[ \t]*\n|[{};,()]|[^/#{};,()\n]+|\n|/", re.S
)
ROLES = {}  # name in the interface -> its role in Sphinx's domain C


class Item:
    """A declaration, the head of a struct or enum, its end, or a text of its own."""

    def __init__(self, kind, code="", comment=""):
        self.kind, self.code, self.comments = kind, code, [comment] if comment else []


def bare(comment):
    """The text of a comment."""
    lines = comment[2:-2].strip("*").splitlines()
    return "\n".join([lines[0].strip(), *(re.sub(r"^\s*\* ?", "", x).rstrip() for x in lines[1:])])


def items(text):
    """The parts of a header, in order."""
    text = re.sub(r"#ifdef __cplusplus.*?#endif\n", "", text, flags=re.S)
    text = text.rstrip().removesuffix("#endif")  # of the guard
    out, code, waiting, depth, kinds, line_over = [], "", None, 0, [], True

    def end(kind, piece=""):
        nonlocal code, waiting, line_over
        item = Item(kind, " ".join((code + piece).split()) if kind != "define" else piece)
        if waiting:
            item.comments.append(waiting)
        out.append(item)
        code, waiting, line_over = "", None, False

    for token in TOKEN.findall(text):
        if token.startswith("/*"):
            behind = out and not line_over and not code.strip() and out[-1].kind != "blank"
            if behind:
                out[-1].comments.append(bare(token))
            else:
                if waiting:
                    out.append(Item("text", comment=waiting))
                waiting = bare(token)
        elif token.startswith("#"):
            name = re.match(r"#(?:define|ifndef) (SKATE_\w+)", token)
            if name and name[1].endswith("_H"):
                pass  # the guard
            elif name and name[1] != "SKATE_API" and token.startswith("#define"):
                end("define", re.sub(r"/\*.*?\*/", "", token, flags=re.S))
                out[-1].comments += [bare(c) for c in re.findall(r"/\*.*?\*/", token, re.S)]
            else:
                if waiting:
                    out.append(Item("text", comment=waiting))
                    waiting = None
                out.append(Item("raw", token))
        elif "\n" in token and not code.strip():
            line_over = True
            if token != "\n":
                if waiting:
                    out.append(Item("text", comment=waiting))
                    waiting = None
                out.append(Item("blank"))
        elif token == "{":
            kinds.append("enum" if re.search(r"\benum\b", code) else "struct")
            end("open", "{")
        elif token == "}":
            if code.strip():
                end("member", ",")
            kinds.pop()
            code = "}"
        elif depth == 0 and (token == ";" or (token == "," and kinds[-1:] == ["enum"])):
            end("close" if code.startswith("}") else "member" if kinds else "decl", token)
        else:
            depth += (token == "(") - (token == ")")
            code += token
    return out


def singly(code):
    """The declarations of a list: `double a, *b;` is `double a;` and `double *b;`."""
    found = re.fullmatch(r"((?:const |struct |enum |unsigned )*\w+) ?([*\w, ]+);", code)
    if not found or "," not in code:
        return [code]
    return [f"{found[1]} {name.strip()};" for name in found[2].split(",")]


def copy(text):
    """The header as hawkmoth reads it."""
    out, shared = [], (None, None)
    for item in items(text):
        comment = "\n\n".join(map(sentence, item.comments))
        title = re.match(r"-{2,} (.+?) -{2,}\s*(.*)", comment, re.S)
        if item.kind == "raw":
            out.append(item.code)
        elif item.kind == "blank":
            shared = None, None
            out.append("")
        elif item.kind == "text":
            text = (
                f"{title[1].capitalize()}\n{'-' * len(title[1])}\n\n{title[2]}"
                if title
                else comment
            )
            out.append(f"/**\n{text}\n */\n/**/")
        elif item.kind == "close":
            out.append(item.code)
        else:
            for code in singly(item.code) if item.kind == "member" else [item.code]:
                name, macro = known(code), item.kind == "define"
                if comment and item.kind != "member":
                    shared = name, macro
                elif (
                    not comment
                    and code.startswith(("#", "SKATE_API"))
                    and shared[0]
                    and shared[1] == macro
                ):
                    comment = f"See {shared[0]}."
                out.append(f"/**\n{comment}\n */\n{code}")
    return "\n".join(out)


def sentence(comment):
    """A comment behind its declaration is a sentence without its capital and its full stop."""
    if re.match(r"[a-z]+ ", comment):
        comment = comment[0].upper() + comment[1:]
    return comment + "." if re.search(r"[\w)]$", comment) else comment


def known(code):
    """The name that a declaration declares; its role is kept."""
    for pattern, role in (
        (r"#define (\w+)", "macro"),
        (r"(?:typedef )?struct (\w+)(?: {|;)", "struct"),
        (r"enum (\w+) {", "enum"),
        (r"typedef .*?\(\*(\w+)\)\(", "type"),
        (r"typedef struct \w+ (\w+);", "type"),
        (r"SKATE_API [^(]*?(\w+)\(", "func"),
        (r"(SKATE_\w+)(?: =[^,]*)? ?,$", "enumerator"),
    ):
        found = re.match(pattern, code)
        if found:
            ROLES[found[1]] = role
            return found[1]
    return None


def to_rest(lines):
    """Makes reStructuredText of the lines of a comment, in place. Lines that are indented by four
    are code."""
    out, text = [], "\n".join(lines)
    for code, prose in re.findall(
        r"((?:^    .*\n?|^\n(?=    ))+)|((?:^(?!    ).*\n?)+)", text, re.M
    ):
        if code:
            out += ["", ".. code-block:: c", "", *code.splitlines(), ""]
        else:
            # empty lines around a list
            prose = re.sub(r"\n+(?=- )", "\n\n", prose)
            prose = re.sub(r"^((?:- |  ).*)\n(?=[^\s-])", r"\1\n\n", prose, flags=re.M)
            out += re.sub(
                r"`[^`]*`|^-+$|[\w*|]*[*_|\w]+(?:\(\))?", word, prose, flags=re.M
            ).splitlines()
    lines[:] = out


def word(found):
    """A word of a comment: a link where it names a part of the interface."""
    text, behind = found[0].removesuffix("()"), found.string[found.end() : found.end() + 1]
    if text in ROLES:
        return f":c:{ROLES[text]}:`{text}`" + ("\\ " if re.match(r"[(\[\w]", behind) else "")
    if text.startswith("`"):
        return " ".join(text.split())
    return found[0] if text.startswith("--") else re.sub(r"([*_|])", r"\\\1", found[0])


def write(headers, folder):
    """Writes the copies of the headers into a folder, where they have changed."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for header in headers:
        made, at = copy(Path(header).read_text()), folder / Path(header).name
        if not at.exists() or at.read_text() != made:
            at.write_text(made)
