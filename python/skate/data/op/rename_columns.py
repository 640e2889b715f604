"""rename_columns: the same columns under other names."""

from __future__ import annotations

from typing import Any

from skate._deps import pa
from skate.data.op import ALL, Batches, Columns, Operator, Params
from skate.data.values import unify
from skate.data.worker import rows


class RenameColumns(Operator):
    one_to_one = by_row = True

    def sure(self, params: Params) -> bool:
        return True

    def columns(self, params: Params) -> Columns:
        names = params["names"]
        if not isinstance(names, dict):
            return ALL
        return Columns(needs=frozenset(names), renamed={new: old for old, new in names.items()})

    def schema(self, params: Params, given: Any) -> Any:
        names = params["names"]
        new = [names.get(name, name) for name in given.names] if isinstance(names, dict) else names
        return pa.schema([f.with_name(name) for f, name in zip(given, new, strict=True)])

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        names = params["names"]
        for rb in batches:
            old = rb.schema.names
            if isinstance(names, dict):
                for n in names:
                    if n not in old:
                        raise rows.missing(n, rb, params["label"])
                new = [names.get(n, n) for n in old]
            else:
                if len(names) != len(old):
                    raise ValueError(
                        f"{params['label']}: {len(names)} names for {len(old)} columns ({unify.few(old)})"
                    )
                new = names
            unify.check_names(new, params["label"])
            yield rb.rename_columns(new)


operator = RenameColumns()
