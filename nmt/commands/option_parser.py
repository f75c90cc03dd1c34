"""argparse whose errors are one sentence, and which takes options anywhere."""

import argparse
import re
from typing import Any, NoReturn

from nmt.errors import UserError


class Parser(argparse.ArgumentParser):
    """Raises UserError with one sentence instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:].rstrip('.')}; see {self.prog} --help.")


class CommandParser(Parser):
    """Accepts options before, between and after the positional arguments; argparse loses those after an option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, positionals, rest = [], [], iter(args)
        for word in rest:
            if word == "--":
                positionals += rest
            elif re.match(r"--?[A-Za-z]", word) and " " not in word.partition("=")[0]:
                action = self._option_string_actions.get(word)
                value = next(rest, None) if action is not None and action.nargs is None else None
                options.append(word if value is None else f"{word}={value}")  # so that -2,-1 may be a value
            else:
                positionals.append(word)
        return super().parse_known_args([*options, *(["--", *positionals] if positionals else [])], namespace)
