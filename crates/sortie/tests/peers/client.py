"""Creates a run with the generated client and reads it once it is final."""

import os

from client import AuthenticatedClient
from client.api.runs import create_run, get_run
from client.models import Run, RunRequest

engine = AuthenticatedClient(
    base_url=os.environ["SORTIE_URL"],
    token=os.environ["SORTIE_API_KEY"],
    raise_on_unexpected_status=True,
)
created = create_run.sync(client=engine, body=RunRequest(prompt="hello from Python", tags=["generated"]))
assert isinstance(created, Run), created
run = get_run.sync(created.id, client=engine, wait=30)
assert isinstance(run, Run), run
assert run.tags == ["generated"], run
print(f"{run.status.value}: {run.output}")
