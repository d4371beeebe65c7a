"""`recollect`: all of its commands. Heavy imports wait until a command runs, so that help comes at once."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from recollect import __version__
from recollect.entrypoints.cli import chat, doctor, manage, mcp, memory, operate, settings, transfer, vault
from recollect.errors import RecollectError

cli = typer.Typer(
    name="recollect",
    help="A self-hosted memory server for LLM chat and agents.",
    epilog="Start with: recollect serve",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
cli.command(epilog="Example: recollect serve --port 8600")(operate.serve)
cli.command(epilog=chat.EPILOG)(chat.chat)
for group in (doctor.commands, memory.commands, operate.commands, transfer.commands):
    cli.add_typer(group)
cli.add_typer(manage.jobs_cli, name="jobs")
cli.add_typer(manage.keys_cli, name="keys")
cli.add_typer(mcp.mcp_cli, name="mcp")
cli.add_typer(manage.presets_cli, name="presets")
cli.add_typer(settings.settings_cli, name="settings")
cli.add_typer(transfer.skills_cli, name="skills")
cli.add_typer(vault.vault_cli, name="vault")
cli.add_typer(manage.webhooks_cli, name="webhooks")


def main() -> None:
    """The console script: friendly errors, exit codes 0, 1 and 2."""
    os.umask(0o077)  # Files of a home are their owner's alone, whatever the home's permissions.
    try:
        cli(prog_name="recollect")
    except RecollectError as error:
        _fail(error.message)
    except UnicodeError:
        _fail("the text is not valid UTF-8")
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"recollect: {message}\n".encode("utf-8", "replace").decode())
    sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"recollect {__version__}")
        raise typer.Exit


@cli.callback()
def options(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A self-hosted memory server for LLM chat and agents."""


if __name__ == "__main__":
    main()
