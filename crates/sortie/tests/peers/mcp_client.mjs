// The MCP SDK for TypeScript as a client of the MCP server: `mcp_client.mjs URL MODE`. MODE is `auto` (the newest revision), `legacy`
// (the handshake of earlier revisions) or `tasks`. The key is in `SORTIE_API_KEY`. The engine has the workflows `greet` and `slow`.
import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, mode] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.SORTIE_API_KEY}` };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });

/** Calls tools and reads resources with the client of the SDK. */
async function check() {
  const negotiation = mode === 'legacy' ? {} : { versionNegotiation: { mode: 'auto' } };
  let hear;
  const changed = new Promise((resolve) => (hear = resolve));
  const onChanged = (error, tools) => hear(error ?? tools);
  const client = new Client({ name: 'test', version: '1' }, { ...negotiation, listChanged: { tools: { onChanged } } });
  await client.connect(transport);
  assert.equal(client.getServerVersion().name, 'sortie');
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  for (const name of ['start_run', 'wait_run', 'greet', 'slow']) assert.ok(names.includes(name), names.join());

  // The client holds the structured content against the output schema of the tool.
  const greeted = await client.callTool({ name: 'greet', arguments: { name: 'Ada' } });
  assert.deepEqual(greeted.structuredContent.output, { greeting: 'hello Ada' });
  const messages = [];
  const slow = await client.callTool(
    { name: 'slow', arguments: {} },
    { onprogress: (progress) => messages.push(progress.message), timeout: 60_000 },
  );
  assert.equal(slow.structuredContent.output, 'slept\n');
  assert.ok(messages.some((message) => message.includes(' is running: ')), messages.join());
  const refused = await client.callTool({ name: 'greet', arguments: { name: 7 } });
  assert.ok(refused.isError && refused.content[0].text.includes('name'), JSON.stringify(refused));
  const { resources } = await client.listResources();
  const { contents } = await client.readResource({ uri: resources[0].uri });
  assert.equal(JSON.parse(contents[0].text).status, 'succeeded');

  const path = `/v1/workflows/of-${mode}`;
  const body = JSON.stringify({ prompt: 'x' });
  await fetch(new URL(path, url), { method: 'PUT', headers: { ...headers, 'content-type': 'application/json' }, body });
  const heard = await changed;
  assert.ok(heard.some((tool) => tool.name === `of-${mode}`), String(heard));
  await client.close();
}

/** The client of the SDK knows no tasks: its transport sends what a client that knows them would send. */
async function tasks() {
  const waiting = new Map();
  transport.onmessage = (message) => waiting.get(message.id)?.(message);
  await transport.start();
  let last = 0;
  const request = async (method, params) => {
    const id = ++last;
    const answered = new Promise((resolve) => waiting.set(id, resolve));
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
    };
    const headers = { 'Mcp-Method': method, 'Mcp-Name': params.name ?? params.taskId, 'MCP-Protocol-Version': '2026-07-28' };
    await transport.send({ jsonrpc: '2.0', id, method, params: { ...params, _meta } }, { headers });
    const { result, error } = await answered;
    assert.equal(error, undefined, JSON.stringify(error));
    return result;
  };
  let task = await request('tools/call', { name: 'slow', arguments: {} });
  assert.equal(task.resultType, 'task');
  const { taskId } = task;
  while ((task = await request('tasks/get', { taskId })).status === 'working') {
    await new Promise((resolve) => setTimeout(resolve, task.pollIntervalMs));
  }
  assert.equal(task.result.structuredContent.output, 'slept\n');
  assert.equal(task.result.structuredContent.run, taskId);
  await transport.close();
}

await (mode === 'tasks' ? tasks() : check());
console.log('ok', mode);
