"""Runs an agent on a file, follows it, and saves what it leaves. Needs SORTIE_URL and SORTIE_API_KEY."""

from sortie_client import Sortie

with Sortie() as client:
    run = client.runs.create(
        prompt="```sh\nmkdir -p outputs && sort -t, -k2 -rn orders.csv >outputs/sorted.csv\n```",
        model="runbook",
        files=[{"path": "orders.csv", "content": "north,3\nsouth,4\n"}],
    )
    for event in client.runs.stream(run.id):
        print(event.type)
    client.runs.download(run.id, "sorted.csv", to="sorted.csv")

with open("sorted.csv") as sorted_orders:
    print(sorted_orders.read(), end="")
