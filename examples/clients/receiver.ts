// Receives callbacks with Node: CALLBACK_SECRET=… PORT=… node receiver.ts
import { createServer } from "node:http";
import { InvalidSignatureError } from "sortie-client";
import { verify } from "sortie-client/callbacks";

const handled = new Set<string>();

createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  try {
    const run = await verify(Buffer.concat(chunks), request.headers, process.env.CALLBACK_SECRET ?? "");
    // A callback can arrive more than once. Keep the IDs in your database.
    if (!handled.has(run.id)) console.log(run.id, run.status, run.output);
    handled.add(run.id);
    response.writeHead(204).end();
  } catch (error) {
    response.writeHead(error instanceof InvalidSignatureError ? 401 : 500).end();
  }
}).listen(Number(process.env.PORT), "127.0.0.1");
