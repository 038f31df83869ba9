"""The command `deploy`."""

import re
from pathlib import Path
from typing import Annotated

from rich.markup import escape
from typer import Option

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli import options
from vitalfew.flows.cli.doctor import POOL
from vitalfew.flows.cli.terminal import err, out, prepare, say, table

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|WEBHOOK|AUTH_STRING")
_COLOURS = {"new": "green", "updated": "yellow", "removed": "red"}


def deploy(
    pool: Annotated[str, Option(metavar="NAME", help="Work pool of the workers; made if there is none.")] = POOL,
    corpora: options.Corpora = None,
    folder: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Working directory of the runs on the workers, where relative paths of data sets begin. Default: the "
            "directory that has the store; for a bucket, a new one, with copies of your corpora and experiments.",
        ),
    ] = None,
    variable: Annotated[
        list[str] | None, Option("--env", metavar="NAME=VALUE", help="Environment variable of the runs. Repeatable.")
    ] = None,
    secret: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=BLOCK",
            help="Environment variable of the runs, with the name of the Prefect Secret block that holds its value. "
            "Repeatable. Not needed for what the environment of the workers has.",
        ),
    ] = None,
    at_once: Annotated[
        int,
        Option(
            metavar="N",
            min=1,
            help="Number of runs of a deployment that work at the same time, on all workers; others wait.",
        ),
    ] = 2,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would change, and change nothing.")] = False,
    print_yaml: Annotated[
        bool,
        Option(
            "--print-yaml",
            help="Print the deployments as a prefect.yaml, which `prefect deploy --all` registers, and do nothing "
            "else. Needs no server.",
        ),
    ] = False,
    take_over: Annotated[bool, Option("--take-over", help="Take over deployments that are of another store.")] = False,
    store: options.Store = options.STORE,
    verbose: options.Verbose = False,
) -> None:
    """Register flows and corpora with Prefect.

    Workers on any machine then run them. Deployments: index-corpus, evaluate, write-questions, train, and
    re-encode/NAME for every corpus, with the `cron` of its file. Run it again after an update of vitalfew, and whenever
    a file in corpora/ changes. It updates what differs, removes what is gone, and leaves alone what you schedule or
    pause in Prefect's page. PREFECT_API_URL names the server, and `prefect worker start --pool vitalfew` starts a
    worker, which needs the installed package alone:

        vitalfew deploy --store store
        vitalfew deploy --store s3://BUCKET/store --secret KEY=aws-key --dry-run
    """
    prepare(verbose)
    variables, secrets = _pairs("--env", variable), _pairs("--secret", secret)
    for name, value in variables.items():
        is_secret = _SECRET.search(name) and not name.endswith(("_PATH", "_FILE"))
        if is_secret or "{{" in value:  # `prefect deploy` fills in blocks when it registers
            raise ConfigError(
                f"--env {name}=…: everybody who sees the deployment would see the value. Put it into a Secret block of "
                f"Prefect, and give --secret {name}=BLOCK"
            )
    from vitalfew.flows.pipelines.gate import power
    from vitalfew.flows.pipelines.named import read_corpora
    from vitalfew.flows.server.access import named_for_workers
    from vitalfew.flows.workers.deploy import Target
    from vitalfew.flows.workers.deploy import deploy as deployed
    from vitalfew.flows.workers.prefect_yaml import prefect_yaml
    from vitalfew.storage import files

    read, bad = read_corpora(store, corpora)
    for corpus in read.values():
        if corpus.gate and (known := power(corpus, corpus.gate)).fault:
            err.print(escape(f"The corpus {corpus.name}: {known.said}."), soft_wrap=True)
    for name, error in bad.items():
        err.print(escape(f"The corpus {name} is left out, and the others are deployed. {error}"), soft_wrap=True)
    own, place = (each.absolute() if each else None for each in (corpora, folder))
    target = Target(pool, files.absolute(store), own, place, variables, secrets, at_once)
    if print_yaml:
        print(prefect_yaml(target), end="")
        return
    server = named_for_workers(store)
    changes = [*deployed(target, dry_run, take_over)]
    rows = (
        (each.name, f"[{_COLOURS.get(each.state, 'dim')}]{each.state}[/]", each.schedule, ", ".join(each.settings))
        for each in changes
    )
    out.print(table("deployment", "state", "schedule", "differs in", rows=rows))
    differing = sum(change.state != "unchanged" for change in changes)
    told = f"{differing} of {len(changes)} deployments {'would change' if dry_run else 'changed'}"
    say(escape(f"{server.address}, work pool {pool}: {told if differing else 'unchanged'}."))


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Raises ConfigError for what is not NAME=VALUE."""
    pairs = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise ConfigError(f"{option} {name}…: write NAME=VALUE, for example AWS_REGION=eu-central-1")
        pairs[name] = value
    return pairs
