"""The directive skate-table: tables that are made of tables of the code, so that none can be stale.

    ```{skate-table} settings
    ```

writes what the function `settings` below returns: a heading, then rows, each cell in Markdown."""

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList


def settings():
    """Every setting of DataContext, with its default."""
    from skate.data import context

    yield "Setting", "Default"
    for name in context._SETTINGS:
        default = context._default(name)
        if isinstance(default, int) and not isinstance(default, bool) and default >= 1 << 20:
            shown = f"{default >> 20} MiB"
        elif isinstance(default, list):
            shown = "<br>".join(f"`{v!r}`" for v in default)
        elif name == "execution_options":
            shown = "{py:class}`ExecutionOptions() <skate.data.ExecutionOptions>`"
        else:
            shown = f"`{getattr(default, 'value', default)!r}`"
        yield f"{{py:attr}}`~skate.data.DataContext.{name}`", shown


def knobs():
    """Every setting of the engine."""
    from skate import config

    of_machine: dict[Any, str] = {
        config.cpus: "the CPUs that this process may use (affinity, cgroup)",
        config.gpus: "the GPUs that are there, or those of `CUDA_VISIBLE_DEVICES`",
        config.store_bytes: "30 % of the memory of the machine or cgroup",
        config.task_memory_bytes: "70 % of the memory of the machine or cgroup",
        config.spill_dir: "`TMPDIR`, `TEMP` or `TMP`, else `/tmp` or `/var/tmp`",
    }
    yield "Name", "Environment variable", "Default", "Meaning"
    for name, (default, variable, meaning) in config.KNOBS.items():
        shown = of_machine[default] if callable(default) else f"`{default!r}`"
        yield f"`{name}`", f"`{variable}`", shown, _sentence(meaning)


def without_effect():
    """Settings of Ray's that are accepted and change nothing."""
    from skate.compat import without_effect as names

    yield "Setting", "Why it changes nothing"
    for name, (_, why) in names.DATA_CONTEXT.items():
        yield f"`DataContext.{name}`", _sentence(why)
    for what, table in (
        ("init({}=)", names.INIT),
        ("_system_config[{!r}]", names.SYSTEM_CONFIG),
        ("runtime_env[{!r}]", names.RUNTIME_ENV),
    ):
        for name, why in table.items():
            yield f"`{what.format(name)}`", _sentence(why)


def _sentence(text):
    return text[:1].upper() + text[1:].rstrip(".") + "."


TABLES = {"settings": settings, "knobs": knobs, "without_effect": without_effect}


class Table(Directive):
    """A page of Markdown parses the text that this makes as its own."""

    required_arguments = 1

    def run(self):
        head, *rows = TABLES[self.arguments[0]]()
        lines = [head, ["---"] * len(head), *rows]
        text = "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in lines)
        box = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), ""), self.content_offset, box)
        return box.children


def setup(app):
    app.add_directive("skate-table", Table)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
