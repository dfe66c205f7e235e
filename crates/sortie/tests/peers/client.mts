// Creates a run with the generated types and reads it once it is final.
import createClient from "openapi-fetch";
import type { paths } from "./schema.d.ts";

declare const process: { env: Record<string, string | undefined> };

const engine = createClient<paths>({
  baseUrl: process.env.SORTIE_URL ?? "",
  headers: { Authorization: `Bearer ${process.env.SORTIE_API_KEY}` },
});

const created = await engine.POST("/v1/runs", { body: { prompt: "hello from TypeScript" } });
if (created.error) throw new Error(created.error.error);
const run = await engine.GET("/v1/runs/{id}", {
  params: { path: { id: created.data.id }, query: { wait: 30 } },
});
if (run.error) throw new Error(run.error.error);
console.log(`${run.data.status}: ${run.data.output}`);
