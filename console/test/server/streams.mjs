// Event streams of the development server.
import { ids } from "./ids.mjs";

const WRITING =
  "Two of the three differences are explained: orders 48213 and 48377 were split across two deliveries, and the sums agree once freight is added. Order 48402 does not exist in the ERP, so invoice INV-2291 has no counterpart. I write the result to outputs/review.md.";

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const sse = (type, data, id) =>
  `${id === undefined ? "" : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;

/** Streams a run: what is recorded, then, of the live one, what the model writes. */
export async function streamRun(run, events, request, response, isStill) {
  const after = Number(request.headers["last-event-id"] ?? 0);
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.write(": connected\nretry: 2000\n");
  response.write(
    events
      .filter(({ id }) => id > after)
      .map((event) => sse(event.type, event, event.id))
      .join(""),
  );
  if (run.finished_at) return response.end(sse("done", run));
  if (run.id === ids.flood) return flood(events, response);
  if (run.id !== ids.live) return;
  response.write(sse("message_start", { model: run.model, step: 4 }));
  const words = WRITING.split(/(?<= )/);
  if (isStill) return response.write(sse("message_delta", { text: WRITING.slice(0, 190), step: 4 }));
  for (let index = 0; !response.destroyed; index += 1) {
    await wait(90);
    response.write(sse("message_delta", { text: words[index % words.length], step: 4 }));
  }
}

/** A hundred events a second, in tens. */
async function flood(events, response) {
  for (let id = events.at(-1).id + 1; !response.destroyed;) {
    await wait(100);
    let batch = "";
    for (const end = id + 10; id < end; id += 1) {
      const call = { tool: "shell", id: `f${id >> 1}` };
      const data =
        id % 2
          ? { ...call, is_error: false, output: "42\n", output_bytes: 3, duration_ms: 5 }
          : { ...call, arguments: { command: `step ${id}` } };
      const type = id % 2 ? "tool_end" : "tool_start";
      batch += sse(type, { id, type, data, created_at: new Date().toISOString() }, id);
    }
    response.write(batch);
  }
}
