"""The deployments of `vitalfew deploy` as a `prefect.yaml` (`vitalfew deploy --print-yaml`), for repositories from
which `prefect deploy --all` registers them.

Source of the file's fields: https://docs.prefect.io/v3/how-to-guides/deployments/prefect-yaml
"""

from typing import Any

import yaml

from vitalfew.flows.serve import TAG
from vitalfew.flows.workers.deploy import OF_THE_CORPUS, Target, Wanted, wanted

SAME = ("description", "version", "tags", "parameters", "enforce_parameter_schema", "entrypoint")
"""The fields of a deployment that have the same names and values in the file."""


class _Dumper(yaml.SafeDumper):
    """Writes every deployment whole, without references to another one, and texts of several lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def prefect_yaml(target: Target) -> str:
    """Return the file's text. Raises ConfigError for folders that cannot be read."""
    made = {
        "name": TAG,
        "pull": target.pull_steps(),
        "deployments": [_deployment(each) for each in wanted(target)],
    }
    text = yaml.dump(made, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return (
        "# Written by `vitalfew deploy --print-yaml`. To register it:\n"
        f"#   prefect work-pool create {target.pool} --type process   # once\n"
        "#   prefect --no-prompt deploy --all\n"
        f"{text}"
    )


def _deployment(each: Wanted) -> dict[str, Any]:
    """Prefect reads the schema of the parameters from the flow itself."""
    settings = each.settings
    limit = {
        "limit": settings["concurrency_limit"],
        "collision_strategy": settings["concurrency_options"].collision_strategy.value,
    }
    pool = {"name": settings["work_pool_name"], "job_variables": settings["job_variables"]}
    return {
        "name": each.name,
        **{field: settings[field] for field in SAME},
        "version_type": "prefect:simple",  # else Prefect adds the commit of the repository that has the file
        "concurrency_limit": limit,
        "work_pool": pool,
        "schedules": _schedules(each),
    }


def _schedules(each: Wanted) -> list[dict[str, Any]]:
    if each.schedule is None:
        return []
    return [{"cron": each.schedule.cron, "timezone": each.schedule.timezone, "slug": OF_THE_CORPUS}]
