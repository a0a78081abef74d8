"""`stem completion`: the script that completes commands, names and ids in a shell."""

import click

from stem.cli.support.flags import options

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@options.quiet_traceback
def completion(shell: str) -> None:
    """Print the script that completes commands, names and ids in a shell.

    Names of tasks, queues and workers and recent ids come from the store that flags, environment or configuration file name,
    if it answers within 300 ms.

    \b
    bash:  echo 'eval "$(stem completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(stem completion zsh)"' >> ~/.zshrc
    fish:  stem completion fish > ~/.config/fish/completions/stem.fish
    """
    from click.shell_completion import get_completion_class

    from stem.cli.main import COMPLETING, cli

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"There is no completion for {shell}; choose one of {', '.join(SHELLS)}.")
    click.echo(found(cli, {}, "stem", COMPLETING).source())
