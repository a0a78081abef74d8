"""`stem pipeline doctor`: check the installation and run a short job."""

import click

from stem.cli.support import printing
from stem.cli.support.failure import FAILURE


@click.command()
@click.option("--master", help="Spark master, like local[2] or spark://host:7077. [env: STEM_SPARK_MASTER]")
@click.option("--remote", help="Address of a Spark Connect server, like sc://host:15002. [env: STEM_SPARK_REMOTE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def doctor(master: str | None, remote: str | None, as_json: bool) -> None:
    """Check what Spark needs, say what is missing, and run a short real job.

    Exit code 0 if all is well, 70 if something is missing.

    \b
    Example: stem pipeline doctor
    """
    import os

    from stem.pipeline.spark.doctor import examine
    from stem.runtime.configfile import configured

    settings = configured(os.environ).pipeline
    findings = []
    for finding in examine(master=master, remote=remote or (None if master else settings.remote)):
        findings.append(finding)
        if not as_json:
            mark = "ok  " if finding.is_ok else "MISS"
            click.echo(printing.plain(f"{mark}  {finding.what:<14} {finding.found}"))
            if finding.remedy:
                click.echo(printing.plain(f"      {'':<14} → {finding.remedy}"))
    is_well = all(finding.is_ok for finding in findings)
    if as_json:
        printing.json({"status": "ok" if is_well else "missing", "findings": findings})
    if not is_well:
        raise click.exceptions.Exit(FAILURE)
