"""A line for each request, and all messages with their times, as text or as JSON.

Neither texts nor keys are in it.
"""

import json
import logging
from datetime import datetime, timezone

log = logging.getLogger("nmt")


class TextLines(logging.Formatter):
    """NAME=VALUE of each request, in JSON's quotes where a value has a space; messages as text."""

    def format(self, record: logging.LogRecord) -> str:
        if not isinstance(record.msg, dict):
            return f"{time_of(record)} {super().format(record)}"
        words = [time_of(record)]
        for name, value in record.msg.items():
            text = str(value)
            is_plain = text and not set(' "=') & set(text)
            words.append(f"{name}={text if is_plain else json.dumps(text)}")
        return " ".join(words)


class JsonLines(logging.Formatter):
    """An object for each request and each message."""

    def format(self, record: logging.LogRecord) -> str:
        about = {"time": time_of(record), "level": record.levelname.lower()}
        if isinstance(record.msg, dict):
            about |= record.msg
        else:
            about["message"] = super().format(record)
        return json.dumps(about, ensure_ascii=False)


FORMATS: dict[str, type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}


def time_of(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, timezone.utc)
    return time.isoformat(timespec="milliseconds")


def use_format(name: str) -> None:
    """Write the messages of the service, and those of its libraries, in one of FORMATS."""
    for handler in log.handlers:
        handler.setFormatter(FORMATS[name]())
    logging.captureWarnings(True)
    for library in ("uvicorn", "asyncio", "py.warnings"):
        of_library = logging.getLogger(library)
        of_library.handlers = log.handlers
        of_library.propagate = False
