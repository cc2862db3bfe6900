"""`voicectl models`: what there is, what is missing, and getting it. No daemon is needed."""

from __future__ import annotations

import argparse
import json
import sys

from voiced.api import DEFAULT_IDS, ModelError, bar, default_library


def show(options: argparse.Namespace) -> int:
    """A line a model: there (and where), or not."""
    library = default_library(options.path)
    for model in library.models():
        try:
            where = str(library.find(model.id).directory)
        except ModelError:
            where = ""
        default = model.id in DEFAULT_IDS
        if options.json:
            facts = {
                "id": model.id,
                "role": model.role,
                "kind": model.kind,
                "licence": model.licence,
                "default": default,
                "path": where or None,
            }
            print(json.dumps(facts, ensure_ascii=False))
        else:
            print(f"{'*' if default else ' '} {model.id:28} {model.role:16} {model.licence:20} {where or '-'}")
    if not options.json:
        print("* the default settings use it    - not here: voicectl models fetch ID")
    return 0


def fetch(options: argparse.Namespace) -> int:
    library = default_library(options.path)
    for model in options.ids or DEFAULT_IDS:
        found = library.fetch(model, bar(sys.stderr), trust_first_use=options.trust_first_use)
        print(f"{model}: {found.directory}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Names every model that is wrong, not only the first; exit code 66 where there is one."""
    library = default_library(options.path)
    worst = 0
    for model in options.ids or [model.id for model in library.models()]:
        try:
            if not options.ids:
                try:
                    library.find(model)
                except ModelError:
                    if model not in DEFAULT_IDS:
                        continue  # a model that nobody fetched is not wrong
                    raise
            unknown = library.verify(model)
            print(f"{model}: whole" + (f" (no checksum is known of {', '.join(unknown)})" if unknown else ""))
        except ModelError as error:
            print(f"voicectl: {error}", file=sys.stderr)
            worst = error.exit_code
    return worst
