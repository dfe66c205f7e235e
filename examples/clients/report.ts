// Runs an agent on a file, follows it, and saves what it leaves. Needs SORTIE_URL and SORTIE_API_KEY.
import { readFile } from "node:fs/promises";
import { Sortie } from "sortie-client";

const client = new Sortie();
const run = await client.runs.create({
  prompt: "```sh\nmkdir -p outputs && sort -t, -k2 -rn orders.csv >outputs/sorted.csv\n```",
  model: "runbook",
  files: [{ path: "orders.csv", content: "north,3\nsouth,4\n" }],
});
for await (const event of client.runs.stream(run.id)) console.log(event.type);
await client.runs.download(run.id, "sorted.csv", { to: "sorted.csv" });
process.stdout.write(await readFile("sorted.csv"));
