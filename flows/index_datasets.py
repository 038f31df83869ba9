"""The flow `index-datasets`: `index-corpus` for people, who fill in a form."""

from prefect import flow

from flows.forms import IndexForm
from flows.index_corpus import index_and_show
from flows.steps import Outcome


@flow(name="index-datasets", flow_run_name="{parameters.name}", validate_parameters=True, persist_result=False)
def index_datasets(parameters: IndexForm) -> Outcome:
    """Make a corpus searchable; what is there already is not done again."""
    return index_and_show(parameters.corpus(), parameters.quote)
