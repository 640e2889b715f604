"""LoggingConfig: how the records of Python's `logging` are written, in the driver and in every
worker of the job."""

import dataclasses
import json
import logging

from skate import _skate
from skate.runtime_context import get_runtime_context

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime"}
_handler = None
logger = logging.getLogger("skate")  # of skate's own messages


class _Formatter(logging.Formatter):
    def __init__(self, conf):
        super().__init__("%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s")
        self.conf = conf

    def format(self, record):
        fields = {k: getattr(record, k, None) for k in self.conf.additional_log_standard_attrs}
        fields.update(_here())
        # fields that the program has passed as extra={...} to the logging call
        fields.update((k, v) for k, v in vars(record).items() if k not in _STANDARD)
        fields["timestamp_ns"] = int(record.created * 1e9)
        if self.conf.encoding == "TEXT":
            return " ".join([super().format(record), *(f"{k}={v}" for k, v in fields.items())])
        first: dict = {
            "asctime": self.formatTime(record),
            "levelname": record.levelname,
            "message": record.getMessage(),
            "filename": record.filename,
        }
        first.update(lineno=record.lineno, process=record.process, name=record.name)
        if record.exc_info:
            first["exc_text"] = self.formatException(record.exc_info)
        elif record.exc_text:  # formatted in another process
            first["exc_text"] = record.exc_text
        if record.stack_info:
            first["stack_info"] = record.stack_info
        return json.dumps({**first, **fields}, default=str)


def _here():
    if not _skate.is_initialized():
        return {}
    c = get_runtime_context()
    found: dict = {
        "job_id": c.get_job_id(),
        "worker_id": c.get_worker_id(),
        "node_id": c.get_node_id(),
    }
    if c._task():
        found.update(
            actor_id=c.get_actor_id(), actor_name=c.get_actor_name(), task_id=c.get_task_id()
        )
        found.update(task_name=c.get_task_name(), task_func_name=c.get_task_function_name())
    return {k: v for k, v in found.items() if v}


@dataclasses.dataclass
class LoggingConfig:
    """The format and level of log records, for init(logging_config=...). Each record names its job,
    worker, actor and task.

    Args:
        encoding: "TEXT" or "JSON" (one object on each line).
        log_level: The level of the root logger.
        additional_log_standard_attrs: Names of further attributes of logging.LogRecord to write.

    Raises:
        ValueError: Another encoding, or an attribute that records do not have.

    Example:
        >>> import skate
        >>> skate.LoggingConfig(encoding="JSON", log_level="WARNING").encoding
        'JSON'
    """

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        if self.encoding not in ("TEXT", "JSON"):
            raise ValueError(f"LoggingConfig: encoding {self.encoding!r}: 'TEXT' or 'JSON'")
        for name in self.additional_log_standard_attrs:
            if name not in _STANDARD:
                raise ValueError(
                    f"LoggingConfig: {name!r} is no attribute that log records have; those are {_STANDARD}"
                )

    def formatter(self) -> logging.Formatter:
        """A formatter that writes records as this configuration says, for a handler of the program's
        own, such as a logging.FileHandler.

        Example:
            >>> import logging, skate
            >>> handler = logging.StreamHandler()
            >>> handler.setFormatter(skate.LoggingConfig(encoding="JSON").formatter())
        """
        return _Formatter(self)

    def _apply(self):
        """Applies this configuration in this process, replacing an earlier one."""
        global _handler
        root = logging.getLogger()
        if _handler is not None:
            root.removeHandler(_handler)
        _handler = logging.StreamHandler()
        _handler.setLevel(self.log_level)
        _handler.setFormatter(self.formatter())
        root.setLevel(self.log_level)
        root.addHandler(_handler)
