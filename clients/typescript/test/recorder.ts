// A server that records requests, and answers what a test has prepared, else 418, which nothing repeats.
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface Seen {
  method: string;
  target: string;
  headers: IncomingHttpHeaders;
  body: string;
}

export interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body?: string;
  /** Closes the connection instead of answering. */
  drop?: boolean;
  /** Closes the connection after the body, which is announced as longer. */
  cut?: boolean;
  /** Sends nothing after the body until the client closes the connection. */
  hang?: boolean;
}

export async function startRecorder() {
  const seen: Seen[] = [];
  const closed = { count: 0 };
  const answers: Answer[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "", url = "", headers } = request;
    seen.push({ method, target: url, headers, body: Buffer.concat(chunks).toString("latin1") });
    const { status = 200, headers: sent, body = "{}", drop, cut, hang } = answers.shift() ?? { status: 418 };
    if (drop) return void request.socket.destroy();
    const length = Buffer.byteLength(body) + (cut || hang ? 1 : 0);
    response.writeHead(status, { "Content-Type": "application/json", "Content-Length": length, ...sent });
    if (!cut && !hang) return void response.end(body);
    response.flushHeaders();
    response.write(body, () => cut && request.socket.destroy());
    request.socket.once("close", () => closed.count++);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    answers,
    /** Connections of answers with `cut` or `hang` that are closed. */
    closed,
    reset: () => {
      seen.length = answers.length = 0;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** An answer with an error object of the engine. */
export const refusal = (status: number, code: string, headers: Record<string, string> = {}): Answer => ({
  status,
  headers: { "X-Request-Id": "req_1", ...headers },
  body: JSON.stringify({ error: `the sentence of ${code}`, code }),
});
