"""nmt completion: what a shell needs to complete commands, options, runs, keys of the configuration
and files."""

import argparse

from nmt.commands.options import COMPOSED_COMMANDS, make_parser
from nmt.config.keys import GROUPS, choices_of, known_keys
from nmt.errors import needs_extra

# by what help calls the value
FILES = {"FILE": "file", "FOLDER": "directory", "DIR": "directory", "PREFIX": "file"}


def run(options: argparse.Namespace) -> int:
    """Print the script for the shell; raises UserError where shtab is missing."""
    with needs_extra("completion"):
        import shtab
    parser = make_parser()
    (commands,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    words = [f"{key}=" for key in known_keys() if key not in GROUPS]
    for group in GROUPS:
        words += [f"{group}={choice}" for choice in choices_of(group)]
    for name, command in commands.choices.items():
        for action in command._actions:
            if name in COMPOSED_COMMANDS and action.dest == "overrides":
                action.complete = shtab.cmd(f"printf '%s\\n' {' '.join(words)}")
            elif action.metavar == "RUN":
                action.complete = shtab.cmd("nmt list | cut -f1")
            elif kind := FILES.get(str(action.metavar)):
                action.complete = shtab.CHOICE_FUNCTIONS[kind]
    script = shtab.complete(parser, options.shell)
    if options.shell == "zsh":  # of several words of a kind it completes the first alone
        script = script.replace('"(*)::', '"*:')
    elif options.shell == "bash":  # no space follows KEY=
        script += '\n_nmt() { _shtab_nmt "$@"; [[ ${COMPREPLY-} == *= ]] && compopt -o nospace; }\n'
        script += "complete -o bashdefault -F _nmt nmt\n"
    print(script)
    return 0
