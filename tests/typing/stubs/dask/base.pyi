from typing import Any

persist: Any

def __getattr__(name: str) -> Any: ...
