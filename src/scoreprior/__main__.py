"""The console script `scoreprior`, also as `python -m scoreprior`."""

from __future__ import annotations

import sys
from importlib import import_module

from scoreprior._extras import MissingExtraError, extra


def main() -> None:
    """Run the command line; without its packages, say in one sentence what to install."""
    try:
        with extra("cli"):
            for package in ("typer", "rich"):
                import_module(package)
    except MissingExtraError as error:
        print(f"Error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    from scoreprior.cli import app

    app(prog_name="scoreprior")


if __name__ == "__main__":
    main()
