"""docs/openapi.json is what the server serves. Rewrites it, or with --check says how the two differ."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.entrypoints.http.server import create_api

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where they differ")
    arguments = parser.parse_args()

    served = create_api().openapi()
    if not arguments.check:
        DOCUMENT.write_text(render(served), encoding="utf-8")
        return 0

    text = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else "{}"
    if text == render(served):
        return 0
    print("docs/openapi.json is not what the server serves; run `make openapi`")
    for line in differences(read(text), served):
        print(f"  {line}")
    return 1


def render(document: dict[str, Any]) -> str:
    """One text for one document, so that a diff shows what changed and nothing else."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read(text: str) -> dict[str, Any]:
    """The document in `text`; one that can't be read (a merge conflict, say) counts as empty."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def differences(written: dict[str, Any], served: dict[str, Any]) -> Iterator[str]:
    """One line for each route, schema or other part that was added, removed or changed."""
    before, after = parts(written), parts(served)
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield f"added    {name}"
        elif name not in after:
            yield f"removed  {name}"
        elif before[name] != after[name]:
            yield f"changed  {name}"


def parts(document: dict[str, Any]) -> dict[str, Any]:
    """The document cut into what a person would name: "POST /api/v1/threads", "schema Turn", "info"."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        if key == "paths":
            for path, item in value.items():
                found |= {f"{method.upper()} {path}": operation for method, operation in item.items()}
        elif key == "components":
            for kind, members in value.items():
                found |= {f"{kind.removesuffix('s')} {name}": member for name, member in members.items()}
        else:
            found[key] = value
    return found


if __name__ == "__main__":
    sys.exit(main())
