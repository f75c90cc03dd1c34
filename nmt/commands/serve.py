"""nmt serve: a translation service on this machine."""

from __future__ import annotations

import argparse
import copy
import ctypes
import ipaddress
import logging
import os
import platform
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

from nmt.audit.faults import unlike_pairs
from nmt.commands.engine import open_engine
from nmt.commands.interface import run_of
from nmt.commands.serving import signal_handlers
from nmt.config.schema import DataConfig
from nmt.corpus.language_pairs import language_pairs
from nmt.documents.memory import TranslationMemory
from nmt.errors import UserError, needs_extra
from nmt.runs.folders import find_checkpoint, find_checkpoints
from nmt.runs.run import Run
from nmt.runs.versions import version_of
from nmt.serve.corrections import Corrections
from nmt.serve.memory import on_one_line
from nmt.training.restore import load_config

log = logging.getLogger("nmt")
ORIGIN = re.compile(r"https?://[^\s/,]+|[a-z-]+-extension://[^\s/,]+")
ROOT_PATH = re.compile(r"(/[\w.~-]+)+", re.ASCII)
# of malloc.h
M_ARENA_MAX = -8
M_MMAP_THRESHOLD = -3
# after which a thread lets another one run Python: a long text holds up no short one
SWITCH_SECONDS = 0.0005
LARGE = 1 << 20  # bytes of a block that is given back at once
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(options: argparse.Namespace, hang_ups: list[int]) -> int:
    """Load the models, and answer requests; after one of `hang_ups`, all is loaded again."""
    with needs_extra("serve"):
        import uvicorn

        from nmt.serve.access_log import use_format
        from nmt.serve.app import make_app
        from nmt.serve.clients import make_key, read_keys
        from nmt.serve.limits import Limits
        from nmt.serve.models import Models
        from nmt.serve.service import Service
    keys = Path(options.keys) if options.keys else None
    if options.new_key is not None:
        if keys is None:
            raise UserError("--new-key NAME needs --keys FILE, which gets its hash.")
        print(make_key(keys, options.new_key))
        return 0
    if not options.names:
        raise UserError("Say which run translates: nmt serve RUN [RUN …].")
    known = read_keys(keys) if keys else None
    limits = Limits(
        options.characters, options.texts, options.megabytes, options.seconds, options.requests
    )
    corrections = open_corrections(options, known)
    check_proxies(options.forwarded_allow_ips)
    root_path = read_root_path(options.root_path)
    listener = listen(options.host, options.port)
    if options.access_log:
        use_format(options.access_log)
    keep_memory_together()
    sys.setswitchinterval(SWITCH_SECONDS)
    runs = Path(options.runs)

    def find(name: str) -> list[Path]:
        return find_checkpoints(name, runs)

    names = [run_name(name, runs) for name in options.names]
    folders = [folder_of(find(name)) for name in names]
    by_given_name = dict(zip(options.names, folders, strict=True))
    glossaries = files_of_runs("--glossary", options.glossary, by_given_name)
    memories = files_of_runs("--memory", options.memory, by_given_name)
    memory_files = []
    for name, folder in zip(names, folders, strict=True):
        if folder in memories:
            memory_files.append((Path(memories[folder]), load_config(find(name)[0]).data))
    units = open_memories(memory_files)

    def open_checkpoints(paths: Sequence[Path]) -> Run:
        own = copy.copy(options)
        own.name = ",".join(map(str, paths))
        run = open_engine(own, None, live=True)
        glossary = glossaries.get(folder_of(paths))
        return run.with_glossary(glossary) if glossary else run

    models = Models(names, find, open_checkpoints, options.max_models)
    if options.host not in LOOPBACK and known is None:
        log.warning(
            "Everyone who reaches %s may translate here; --keys FILE asks for a key.", options.host
        )
    service = Service(
        models,
        limits,
        known,
        read_origins(options.cors),
        keys,
        corrections=corrections,
        acceptors=options.accept,
        units=units,
        reread_units=partial(open_memories, memory_files),
        hang_ups=hang_ups,
    )
    directions = ", ".join(f"{source}→{target}" for source, target in service.directions)
    log.info(
        "http://%s:%d/ translates %s; Ctrl-C ends.",
        options.host,
        listener.getsockname()[1],
        directions,
    )
    config = uvicorn.Config(
        make_app(service, root_path, bool(options.access_log)),
        log_config=None,
        access_log=False,
        forwarded_allow_ips=options.forwarded_allow_ips,
        server_header=False,
        timeout_graceful_shutdown=limits.seconds,
        timeout_keep_alive=30,
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            service.stop()
            super().handle_exit(sig, frame)

    # uvicorn raises these signals again once it has ended
    with signal_handlers(dict.fromkeys(("SIGINT", "SIGTERM"), lambda *_: None)):
        Server(config).run(sockets=[listener])
    return 0


def open_corrections(
    options: argparse.Namespace, keys: dict[str, str] | None
) -> Corrections | None:
    """The file of --corrections; raises UserError, also for --accept of a key that is not there."""
    if options.accept and not options.corrections:
        raise UserError("--accept needs --corrections FILE, where corrections are kept.")
    for name in options.accept:
        if name not in (keys or {}).values():
            raise UserError(f"--accept {name}: no key of --keys FILE has this name.")
    return Corrections(Path(options.corrections), create=True) if options.corrections else None


def folder_of(checkpoints: Sequence[Path]) -> Path:
    """The folder of a run, of an ensemble that of its first member."""
    return version_of(checkpoints[0].parent)[0]


def files_of_runs(option: str, given: Sequence[str], folders: dict[str, Path]) -> dict[Path, str]:
    """The file of each run, by its folder: that of RUN=FILE, or of FILE, which is for the others.

    Raises UserError for two files of a run.
    """
    files: dict[str, str] = {}  # by the name of a run; "": of the others
    for word in given:
        name, has_name, file = word.partition("=")
        if not has_name or name not in folders:
            name = ""
            file = word
        if name in files:
            raise UserError(f"{option} gives {name or 'all runs'} two files; join them.")
        files[name] = file
    found = {}
    for name, folder in folders.items():
        if file := files.get(name, files.get("", "")):
            found[folder] = file
    return found


def open_memories(
    files: Sequence[tuple[Path, DataConfig]],
    former: Mapping[tuple[str, str], TranslationMemory] | None = None,
) -> dict[tuple[str, str], TranslationMemory]:
    """The memory for each direction of some runs: of each its file and its configuration.

    former: what stays where a file cannot be read. Without it, raises UserError for a file without
    pairs for its run.
    """
    memories = dict(former or {})
    for path, data in files:
        directions = language_pairs(data)
        for source, target in directions:
            of_pair = replace(data, source=source, target=target)
            try:
                units = TranslationMemory.open(path, of_pair, unlike_pairs)
            except UserError as error:
                if (source, target) in memories:
                    log.error("The memory of %s→%s stays as it was: %s", source, target, error)
                elif former is None and len(directions) == 1:
                    raise
                else:
                    log.warning("%s→%s has no memory: %s", source, target, error)
            else:
                # Texts are looked up whatever their spaces are (`Memory.find`)
                pairs = [(on_one_line(text), units.targets[text]) for text in units.targets]
                memories[source, target] = TranslationMemory(pairs)
    return memories


def run_name(name: str, runs: Path) -> str:
    """The name by which a run is found again: the latest one stays the same one."""
    name = run_of(name, runs, None, None)
    if os.path.exists(name):
        return name
    names = []
    for member in name.split(","):
        if member == "latest":
            member = str(version_of(find_checkpoint(member, runs).parent)[0])
        names.append(member)
    return ",".join(names)


def read_root_path(given: str) -> str:
    """The path of --root-path without its last slash; raises UserError."""
    path = given.rstrip("/")
    if path and not ROOT_PATH.fullmatch(path):
        raise UserError(f"--root-path {given} is not a path such as /translate.")
    return path


def check_proxies(given: str) -> None:
    """Raise UserError for what is not a list of addresses and networks, or *."""
    for address in given.split(","):
        try:
            if given != "*":
                ipaddress.ip_network(address.strip(), strict=False)
        except ValueError:
            raise UserError(
                f"--forwarded-allow-ips {given}: {address.strip()!r} is not an address or a "
                "network such as 10.0.0.0/8."
            ) from None


def keep_memory_together() -> None:
    """Let the threads of this process share two heaps, and give large blocks back at once.

    By default glibc has eight heaps for each core. Each keeps what the largest request of its
    threads needed, so that a service grew for hours.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 2)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)


def read_origins(given: str | None) -> list[str]:
    """The origins of --cors; raises UserError for what no browser would send as one."""
    origins = given.split(",") if given else []
    for origin in origins:
        if origin != "*" and not ORIGIN.fullmatch(origin):
            raise UserError(f"--cors {origin} is not an origin such as https://example.org, or *.")
    return origins


def listen(host: str, port: int) -> socket.socket:
    """A socket for an address; raises UserError where it cannot be had."""
    try:
        if not 0 <= port < 1 << 16:
            raise OSError(0, "ports are below 65536")
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise UserError(
            f"--host {host} --port {port} cannot be used: {error.strerror}; choose another."
        ) from None
