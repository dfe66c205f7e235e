// A model provider that speaks Chat Completions. The prompt of a run names its script: "script:retry".
import { createServer } from "node:http";

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const WORDS_MS = 15;

/**
 * Starts the provider. A script takes the number of its request, from 0, and the request, and returns an answer:
 * `{ status, message }` for a failure, else `{ text, calls: [{ name, args }], input, output }` with tokens as counts.
 */
export async function startModel(scripts) {
  const asked = new Map();
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { messages, stream } = JSON.parse(body);
    // A script that counts its requests is that of one run: a long conversation is shortened, and begins with another text.
    const name = /script:(\w+)/.exec(JSON.stringify(messages))?.[1];
    const count = asked.get(name) ?? 0;
    asked.set(name, count + 1);
    const answer = scripts[name]?.(count, { messages }) ?? { status: 500, message: `there is no script ${name}` };
    if (answer.status) {
      response.writeHead(answer.status, { "Content-Type": "application/json" });
      return response.end(JSON.stringify({ error: { message: answer.message, type: "server_error" } }));
    }
    const { text = "", calls = [], input = 100, output = 20, delay = 0 } = answer;
    await wait(delay);
    const tools = calls.map(({ name: tool, args }, index) => ({
      index,
      id: `call_${count}_${index}`,
      type: "function",
      function: { name: tool, arguments: JSON.stringify(args) },
    }));
    const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
    const reason = tools.length ? "tool_calls" : "stop";
    if (!stream) {
      response.writeHead(200, { "Content-Type": "application/json" });
      const message = { role: "assistant", content: text, ...(tools.length && { tool_calls: tools }) };
      return response.end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: reason }], usage }));
    }
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = (delta, more = {}) =>
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, ...more }] })}\n\n`);
    for (const word of text.split(/(?<= )/)) {
      send({ role: "assistant", content: word });
      await wait(WORDS_MS);
    }
    if (tools.length) send({ tool_calls: tools });
    send({}, { finish_reason: reason });
    response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  return {
    /** Settings of an engine that uses this provider. */
    config: `default_model = "scripted"

[providers.scripted]
api = "openai-chat"
base_url = "http://127.0.0.1:${port}/v1"

[models.scripted]
provider = "scripted"
context_window = 128000
max_output_tokens = 4096
input_micros_per_mtok = 3000000
output_micros_per_mtok = 15000000
`,
    close: () => server.closeAllConnections() ?? server.close(),
  };
}
