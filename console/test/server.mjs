// Development server: dist/ with the engine's headers, and an API of fixed data and scripted event streams.
//
//   node test/server.mjs [--port 8099]     signs in every key that begins with "sts_"
import { createServer } from "node:http";
import { serveFile } from "./server/files.mjs";
import { ids } from "./server/ids.mjs";
import { json, refuse } from "./server/answers.mjs";
import { organizations } from "./server/organizations.mjs";
import { world } from "./server/runs.mjs";
import { sse, streamRun } from "./server/streams.mjs";
import { usageOf } from "./server/usage.mjs";

async function bodyOf(request) {
  let text = "";
  for await (const chunk of request) text += chunk;
  return (request.headers["content-type"] ?? "").startsWith("application/json") && text ? JSON.parse(text) : text;
}

function matches(run, query) {
  const has = (name, value) => !query.get(name) || query.get(name) === value;
  const statuses = query.get("status")?.split(",") ?? [];
  const text = (query.get("q") ?? "").toLowerCase();
  return (
    (statuses.length === 0 || statuses.includes(run.status)) &&
    has("workflow", run.workflow) &&
    has("model", run.model) &&
    has("schedule", run.schedule_id) &&
    (!query.get("tag") || run.tags?.includes(query.get("tag"))) &&
    (run.cost_micros ?? 0) >= Number(query.get("min_cost_micros") ?? 0) &&
    (!query.get("since") || run.created_at >= query.get("since")) &&
    (!query.get("until") || run.created_at < query.get("until")) &&
    (!text || `${run.title}`.toLowerCase().includes(text)) &&
    (!query.get("error") || (run.error ?? "").includes(query.get("error")))
  );
}

export function startServer({
  port = 0,
  now = Date.now(),
  isStill = false,
  isEmpty = false,
  isHosted = false,
  isQuiet = true,
} = {}) {
  const data = world(now);
  if (isEmpty)
    Object.assign(data, {
      runs: [],
      workflows: [],
      schedules: [],
      connections: [],
      budgets: [],
      deliveries: [],
      models: { default_model: "runbook", models: data.models.models.slice(-1) },
    });
  const requests = [];
  const feeds = new Set();
  let position = 0;
  /** Asks the feeds of the list to read it anew. */
  const reset = () => feeds.forEach((feed) => feed.write(sse("reset", {}, `feed-${(position += 1)}`)));
  /** Changes a run, and tells the feeds of the list. */
  const change = (id, fields) => {
    const run = Object.assign(
      data.runs.find((one) => one.id === id) ?? data.runs[data.runs.push({ ...data.runs[2], id }) - 1],
      fields,
    );
    for (const feed of feeds) feed.write(sse("run", listed(run), `feed-${(position += 1)}`));
  };
  const listed = ({ output: _output, ...run }) => run;

  function runs(method, path, query, request, response, body) {
    const [, id, part, ...rest] = path.split("/");
    if (!id) {
      if (method === "POST") {
        if (body.input?.tolerance < 0) return refuse(response, 400, "invalid_request", "input.tolerance: less than 0");
        const run = {
          ...data.runs[2],
          id: `run_01m811fq27ec1bm7gm628n${String(requests.length).padStart(4, "0")}`,
          created_at: new Date().toISOString(),
          title: body.prompt?.split("\n")[0],
        };
        data.runs.unshift(run);
        data.scripts[run.id] = [{ id: 1, type: "status", data: { status: "queued" }, created_at: run.created_at }];
        return json(response, 202, run);
      }
      const found = data.runs.filter((run) => matches(run, query)).map(listed);
      if (request.headers.accept === "text/event-stream") {
        response.writeHead(200, { "Content-Type": "text/event-stream" });
        feeds.add(response);
        response.on("close", () => feeds.delete(response));
        return response.write(`: connected\n${request.headers["last-event-id"] ? "" : sse("reset", {}, "feed-0")}`);
      }
      const first = Number(query.get("cursor") ?? 0);
      const limit = Number(query.get("limit") ?? 100);
      return json(response, 200, {
        items: found.slice(first, first + limit),
        next_cursor: found.length > first + limit ? String(first + limit) : "",
      });
    }
    if (id === "cancel") {
      if (![...query.keys()].some((name) => !["limit", "cursor", "dry_run"].includes(name)))
        return refuse(response, 400, "invalid_request", "at least one filter is required");
      const matched = data.runs.filter((run) => matches(run, query) && !run.finished_at).length;
      return json(response, 200, { matched, cancelled: query.has("dry_run") ? 0 : matched, next_cursor: "" });
    }
    const run = data.runs.find((one) => one.id === id);
    if (!run) return refuse(response, 404, "not_found", "no such run");
    const isGone = run.zero_data_retention;
    if (!part) {
      if (isGone && query.get("output") !== "false") {
        const answer = { ...run, output: "The code is 4711." };
        Object.assign(run, { output_available: false, output_read_at: new Date(now).toISOString() });
        return json(response, 200, answer);
      }
      return json(response, 200, query.get("output") === "false" ? listed(run) : run);
    }
    if (isGone) return refuse(response, 410, "gone", "the run has zero data retention");
    if (part === "events")
      return streamRun(run, data.scripts[id] ?? data.scripts[ids.done], request, response, isStill);
    if (part === "definition") return json(response, 200, data.definitions[id] ?? data.definitions.default);
    if (part === "deliveries")
      return method === "POST"
        ? json(response, 202, { attempt: 4 })
        : json(response, 200, run.id === ids.done ? data.attempts : []);
    if (part === "cancel")
      return json(response, 200, Object.assign(run, { status: "cancelled", finished_at: new Date(now).toISOString() }));
    response.writeHead(200, {
      "Content-Type": rest.at(-1).endsWith(".json") ? "application/json" : "text/markdown",
      "Content-Disposition": "attachment",
    });
    response.end(rest.at(-1).endsWith(".json") ? '{"matched": 209, "differs": ["48213", "48377"]}' : "# Review\n");
  }

  /** A list of named records: read, replaced and deleted by name. */
  function named(list, key, method, name, body, response) {
    if (!name) return json(response, 200, list);
    const index = list.findIndex((one) => one[key] === decodeURIComponent(name));
    if (method === "DELETE") list.splice(index, 1);
    if (method === "PUT")
      index < 0 ? list.push({ ...body, [key]: decodeURIComponent(name) }) : Object.assign(list[index], body);
    if (method === "DELETE") return json(response, 204);
    return index < 0 && method === "GET"
      ? refuse(response, 404, "not_found", "there is none with this name")
      : json(response, 200, list[index] ?? list.at(-1));
  }

  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    if (isStill) response.setHeader("Date", new Date(now).toUTCString());
    const { method } = request;
    if (url.pathname.startsWith("/console")) return serveFile(url.pathname, response);
    requests.push(`${method} ${url.pathname}${url.search}`);
    const body = method === "GET" ? undefined : await bodyOf(request);
    const ofOrganization = /^\/engine\/org_\w+(?=\/v1)/.exec(url.pathname)?.[0] ?? "";
    const path = url.pathname.slice(`${ofOrganization}/v1`.length);
    const [, area, name, action] = path.split("/");
    if (path === "/console")
      return json(
        response,
        200,
        isHosted
          ? { version: "0.4.0", mode: "hosted", sign_in_url: "/sign-in" }
          : { version: "0.4.0", mode: "self-hosted" },
      );
    if (path === "/console/sessions") {
      if (request.headers["x-sortie-console"] !== "1")
        return refuse(response, 403, "forbidden", "the header X-Sortie-Console is missing");
      if (!body.key?.startsWith("sts_") && body.code !== "ABCD")
        return refuse(response, 401, "unauthorized", "this key is not valid, or has been revoked");
      response.setHeader("Set-Cookie", "sortie-dev=1; HttpOnly; SameSite=Strict; Path=/");
      return json(response, 201, {});
    }
    if (data.isRevoked || !request.headers.cookie?.includes("sortie-dev=1"))
      return refuse(response, 401, "unauthorized", "sign in first");
    if (path === "/console/sessions/current") {
      response.setHeader("Set-Cookie", "sortie-dev=; Max-Age=0; Path=/");
      return json(response, 204);
    }
    if (data.refusal) {
      response.setHeader("Retry-After", "2");
      return refuse(response, ...data.refusal);
    }
    if (area === "organizations") return organizations(method, path, body, data, response);
    if (isHosted && !ofOrganization) return refuse(response, 404, "not_found", "no such route");
    if (path === "/me") {
      const hosted = isHosted && { features: { console: true, payments: true, mail: false, sign_up: "closed" } };
      return json(response, 200, { ...data.me, ...hosted });
    }
    if (path === "/models") return json(response, 200, data.models);
    if (area === "runs") return runs(method, path.slice("/runs".length), url.searchParams, request, response, body);
    if (path === "/workflows" && method === "GET")
      return json(
        response,
        200,
        data.workflows.map(({ connections = {}, files: _files, ...rest }) => ({
          ...rest,
          connections: Object.keys(connections),
        })),
      );
    if (area === "workflows") return named(data.workflows, "name", method, name, body, response);
    if (area === "connections" && name === "catalog") return json(response, 200, data.catalog);
    if (area === "connections" && action === "test")
      return json(response, 200, { status: "ready", detail: "answered 200", http_status: 200, duration_ms: 84 });
    if (path.endsWith("/oauth/confirm"))
      return json(response, 200, { connection: name, status: "ready", account: "dana@example.com" });
    if (action === "oauth")
      return json(response, 200, {
        authorization_url: "https://auth.example.com/authorize",
        expires_at: new Date(Date.now() + 6e5).toISOString(),
      });
    if (area === "connections") return named(data.connections, "name", method, name, body, response);
    if (area === "budgets") return named(data.budgets, "scope", method, name, body, response);
    if (area === "deliveries") return json(response, 200, { items: data.deliveries, next_cursor: "" });
    if (area === "files")
      return method === "POST" ? json(response, 201, data.files[0]) : json(response, 200, data.files);
    if (path === "/admin/keys" && method === "POST")
      return json(response, 201, { ...body, id: "key_01kafs6w1cefkstv6qr1ptb9mp", key: "sts_4f9d0c2ab7e84c6f9a1e" });
    if (path.endsWith("/rotate")) return json(response, 200, { ...data.keys[0], key: "sts_77aa0c2ab7e84c6f9a1e" });
    if (path.startsWith("/admin/keys"))
      return method === "DELETE" ? json(response, 204) : json(response, 200, data.keys);
    if (path === "/usage" || path === "/admin/usage")
      return json(
        response,
        200,
        usageOf(now, url.searchParams.get("by").split(","), url.searchParams.get("from"), url.searchParams.get("to")),
      );
    if (area === "schedules") {
      if (action === "next")
        return json(
          response,
          200,
          [1, 2, 3].map((hour) => ({
            instant: new Date(now + hour * 36e5).toISOString(),
            run_at: new Date(now + hour * 36e5).toISOString(),
          })),
        );
      if (action === "fires") return json(response, 200, { items: data.fires, next_cursor: "" });
      if (action === "trigger") return json(response, 202, data.runs[2]);
      if (!name && method === "GET") return json(response, 200, { items: data.schedules, next_cursor: "" });
      const schedule = data.schedules.find(({ id }) => id === name) ?? data.schedules[0];
      return method === "DELETE"
        ? json(response, 204)
        : json(response, 200, Object.assign(schedule, method === "PATCH" ? body : {}));
    }
    refuse(response, 404, "not_found", "no such route");
  });
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => {
      const origin = `http://127.0.0.1:${server.address().port}`;
      if (!isQuiet) console.log(`${origin}/console/ with any key that begins with sts_`);
      resolve({
        origin,
        requests,
        change,
        reset,
        ids,
        data,
        cut: () => server.closeAllConnections(),
        close: () => server.closeAllConnections() ?? server.close(),
      });
    });
  });
}

if (process.argv[1] === import.meta.filename) {
  const index = process.argv.indexOf("--port");
  await startServer({ port: index < 0 ? 8099 : Number(process.argv[index + 1]), isQuiet: false });
}
