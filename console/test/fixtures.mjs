// Data of the development server: an installation with a few runs, as the engine would answer.
import { ANSWER, failed, interrupted, invoices, invoicesDone, many, recorded, timedOut } from "./events.mjs";

const id = (prefix, tail) => `${prefix}_01m811fq27ec1bm7gm628e${tail}`.slice(0, prefix.length + 27).padEnd(prefix.length + 27, "0");
export const ids = {
  live: id("run", "saw0"),
  done: id("run", "aa11"),
  failed: id("run", "bb22"),
  interrupted: id("run", "cc33"),
  timedOut: id("run", "dd44"),
  many: id("run", "ee55"),
  retention: id("run", "ff66"),
  hostile: id("run", "gg77"),
  queued: id("run", "hh88"),
  flood: id("run", "ii99"),
};

const HOSTILE = `# <img src=x onerror=alert(1)>
[click](javascript:alert(1)) ![pixel](https://evil.example/pixel.png) <script>alert(1)</script>
[data](data:text/html,<script>alert(1)</script>) <https://example.com> \u202Etxt.exe
- <iframe src="https://evil.example"></iframe>
- [ok](https://example.com/a?b=c)

| a | <b onmouseover=alert(1)>b</b> |
|---|---|
| \`<style>*{display:none}</style>\` | **bold** |
`;
const hostile = [
  ...invoices.slice(0, 4),
  [900, "model_call", { model: "claude-haiku-5-5", step: 1, input_tokens: 100, output_tokens: 40, cache_read_tokens: 0, cache_write_tokens: 0, cost_micros: 900, duration_ms: 800, stop_reason: "tool_use" }],
  [901, "message", { text: HOSTILE, step: 1 }],
  [950, "tool_start", { tool: "shell", id: "t1", arguments: { command: "printf '\\033]0;title\\007<b>x</b>\\u202e'" } }],
  [990, "tool_end", { tool: "shell", id: "t1", is_error: false, output: "\u001b]0;title\u0007<b>x</b>\u202e \u001b[31mred\u001b[0m", output_bytes: 30, duration_ms: 40 }],
  [1000, "artifact", { path: '<img src=x onerror=alert(1)>.svg', size: 90, sha256: "0".repeat(64), content_type: "image/svg+xml" }],
  [1010, "result", { output: HOSTILE }],
  [1020, "status", { status: "succeeded" }],
];

const PROMPT = `Match this week’s invoices with the orders of the ERP.

Read every file in invoices/. For each invoice, find the order with the same supplier and sum. Allow the tolerance of the input. Write outputs/matches.json, and list what differs in a table.`;

const schema = {
  type: "object",
  required: ["week"],
  properties: {
    week: { type: "string", title: "Week", description: "Calendar week", maxLength: 8 },
    tolerance: { type: "number", title: "Tolerance", minimum: 0, maximum: 1 },
    currency: { enum: ["EUR", "USD"], title: "Currency" },
    dry_run: { type: "boolean", title: "Dry run" },
  },
};

const request = {
  prompt: PROMPT,
  input: { week: "2026-W47", tolerance: 0.01 },
  model: "claude-sonnet-5-5",
  files: [{ path: "invoices/2026-w47.csv", file: "file_01kafs6w1cefkstv6qr1ptb0mp" }, { path: "rules.md", content: "# Rules\n\nSums are equal within the tolerance.\n" }],
  connections: { erp: { ref: "erp", allowed_methods: ["GET"] } },
  max_cost_micros: 250_000,
  timeout_seconds: 300,
  shell: true,
  tags: ["finance", "weekly"],
};

export function world(now) {
  const at = (secondsAgo) => new Date(now - secondsAgo * 1000).toISOString();
  const run = (runId, status, ago, length, cost, more) => ({
    id: runId,
    status,
    created_at: at(ago),
    ...(status !== "queued" && { started_at: at(ago - 0.044) }),
    ...(length !== undefined && { finished_at: at(ago - length) }),
    ...(cost && { cost_micros: cost }),
    max_cost_micros: 1_000_000,
    timeout_seconds: 300,
    billing_pending: false,
    zero_data_retention: false,
    ...more,
  });
  const sonnet = { model: "claude-sonnet-5-5" };
  const haiku = { model: "claude-haiku-5-5" };
  const triage = { workflow: "invoice-triage", ...sonnet, tags: ["finance", "weekly"], max_cost_micros: 250_000 };
  const usage = { input_tokens: 9000, output_tokens: 2900, cache_read_tokens: 27_000, cache_write_tokens: 0, model_calls: 4, tool_calls: 7 };
  const router = (tail, ticket, ago, length) => run(id("run", tail), "succeeded", ago, length, 1200, { workflow: "support-router", title: `Label ticket ${ticket} and find the owner`, tags: ["crm"], ...haiku });
  const runs = [
    run(ids.live, "running", 46, undefined, 204_000, { ...triage, title: "Match this week’s invoices with orders", schedule_id: "sched_01kafs6w1cefkstv6qr1ptb0mp" }),
    run(id("run", "dg01"), "running", 12.4, undefined, 12_000, { workflow: "hourly-digest", title: "Summarize the day for the team", tags: ["digest"], ...haiku }),
    run(ids.queued, "queued", 2, undefined, 0, { title: "Translate the release notes into German", ...sonnet }),
    run(ids.failed, "failed", 200, 31.8, 18_000, { workflow: "price-watch", title: "Compare 48 prices with yesterday", error: "output does not match output_schema: output.items[3].price: required", tags: ["shop"], model: "gemini-3.5-flash" }),
    router("sr40", 8840, 260, 2.1),
    router("sr39", 8839, 380, 1.8),
    run(ids.timedOut, "timed_out", 720, 600, 871_000, { workflow: "crawl-docs", title: "Fetch every page below the handbook and check the links", error: "timeout_seconds: 600 seconds passed", timeout_seconds: 600, tags: ["docs"], ...sonnet }),
    run(ids.interrupted, "interrupted", 2400, 9, 9000, { title: "Refund order 48402 and tell the customer", error: "the worker was lost during crm__create_ticket, which may have had its effect", tags: ["crm"], ...sonnet }),
    run(id("run", "dg00"), "succeeded", 3700, 18.9, 14_000, { workflow: "hourly-digest", title: "Summarize the day for the team", tags: ["digest"], ...haiku }),
    run(id("run", "cx00"), "cancelled", 3900, 4, 0, { title: "Rename the columns of orders.csv", model: "runbook" }),
    run(ids.done, "succeeded", 7300, 45.66, 204_000, { ...triage, title: "Match last week’s invoices with orders", output: ANSWER, usage, artifacts: invoicesDone.filter(([, type]) => type === "artifact").map(([, , data]) => data) }),
    run(ids.retention, "succeeded", 7600, 3, 4000, { zero_data_retention: true, output_available: true, output_expires_at: at(-3000), usage, ...haiku }),
    run(ids.hostile, "succeeded", 8000, 1, 900, { title: '<img src=x onerror="alert(1)"> \u202Etxt', output: HOSTILE, ...haiku }),
    run(ids.many, "succeeded", 9000, 60, 310_000, { workflow: "crawl-docs", title: "Read ten thousand pages", tags: ["docs"], ...sonnet }),
    router("sr38", 8838, 9100, 2.4),
    run(ids.flood, "running", 9200, undefined, 310_000, { workflow: "crawl-docs", title: "A hundred events a second", tags: ["docs"], ...sonnet }),
  ];
  const scripts = {
    [ids.live]: recorded(now - 46_000, invoices),
    [ids.done]: recorded(now - 7_300_000, invoicesDone),
    [ids.failed]: recorded(now - 200_000, failed),
    [ids.interrupted]: recorded(now - 2_400_000, interrupted),
    [ids.timedOut]: recorded(now - 720_000, timedOut),
    [ids.many]: recorded(now - 9_000_000, many(10_207)),
    [ids.flood]: recorded(now - 60_000, many(10_000).slice(0, -2)),
    [ids.hostile]: recorded(now - 8_000_000, hostile),
    [ids.queued]: recorded(now - 2000, [[0, "status", { status: "queued" }]]),
  };
  const price = (input, output, read, write) => ({ input_micros_per_mtok: input, output_micros_per_mtok: output, cache_read_micros_per_mtok: read, cache_write_micros_per_mtok: write });
  const model = (modelId, name, provider, context_window, prices, capabilities) => ({ id: modelId, name, provider, context_window, max_output_tokens: 64_000, prices, capabilities });
  const all = ["tools", "structured_output", "thinking", "vision", "documents"];
  return {
    runs,
    scripts,
    definitions: {
      default: { request, requires_credentials: [] },
      [ids.live]: { request: { ...request, model: "claude-sonnet-5-5", prompt: PROMPT.replace("list what differs in a table", "check what differs together, one by one") }, requires_credentials: ["erp"] },
    },
    me: { organization_id: "org_01kafs6w1cefkstv6qr1ptb0mp", organization_name: "Example Inc.", role: "admin", mode: "self-hosted", compute_micros_per_second: 0, default_max_cost_micros: 1_000_000, key_id: "key_01kafs6w1cefkstv6qr1ptb0mp", key_name: "ops", version: "0.4.0", features: ["console"] },
    models: {
      default_model: "claude-sonnet-5-5",
      models: [
        model("claude-sonnet-5-5", "Claude Sonnet 5.5", "anthropic", 1_000_000, price(3e6, 15e6, 300_000, 3_750_000), all),
        model("claude-haiku-5-5", "Claude Haiku 5.5", "anthropic", 200_000, price(1e6, 5e6, 100_000, 1_250_000), all),
        model("gemini-3.5-flash", "Gemini 3.5 Flash", "gemini", 1_000_000, price(300_000, 2_500_000, 75_000, 300_000), all),
        model("qwen3:32b", "Qwen 3 32B", "local", 131_072, price(0, 0, 0, 0), ["tools", "thinking"]),
        model("runbook", "Runbook", "sortie", 1_000_000, price(0, 0, 0, 0), ["tools", "offline"]),
      ],
    },
    workflows: [
      { name: "invoice-triage", description: "Matches invoices with orders of the ERP and marks what differs.", ...request, input_schema: schema, revision: 14, created_at: at(9e6), updated_at: at(172_800), runs_30d: 42, cost_30d_micros: 8_610_000 },
      { name: "hourly-digest", description: "Summarizes what happened in the last hour.", prompt: "Summarize the day for the team.", model: "claude-haiku-5-5", revision: 3, created_at: at(9e6), updated_at: at(900_000), runs_30d: 714, cost_30d_micros: 9_996_000 },
      { name: "price-watch", description: "Compares prices with those of yesterday.", prompt: "Compare 48 prices with yesterday.", model: "gemini-3.5-flash", revision: 7, created_at: at(9e6), updated_at: at(86_400), output_schema: { type: "object" }, runs_30d: 690, cost_30d_micros: 12_420_000 },
      { name: "support-router", description: "Labels tickets and finds their owner.", prompt: "Label the ticket and find its owner.", model: "claude-haiku-5-5", revision: 21, created_at: at(9e6), updated_at: at(4e6), runs_30d: 1420, cost_30d_micros: 1_704_000 },
      { name: "crawl-docs", prompt: "Fetch every page below the handbook and check the links.", revision: 1, created_at: at(9e6), updated_at: at(9e6) },
    ],
    schedules: [
      ["hourly-digest", "0 * * * *", "UTC", "allow", -2340, "succeeded", {}],
      ["support-router", "*/30 * * * *", "UTC", "queue_one", -540, "succeeded", {}],
      ["price-watch", "0 * * * *", "UTC", "skip", -2340, "failed", { jitter_seconds: 300, last_error: "output does not match output_schema: output.items[3].price: required" }],
      ["invoice-triage", "0 7 * * MON-FRI", "Europe/Berlin", "cancel_other", -160_000, "succeeded", { name: "Weekday mornings" }],
      ["crm-sync", "0 */2 * * *", "UTC", "skip", undefined, "failed", { paused_until: at(-90_000), last_error: "crm: needs authorization" }],
    ].map(([workflow, cron, timezone, overlap, next, last, more], index) => ({
      id: `sched_01kafs6w1cefkstv6qr1ptb${index}mp`,
      workflow, cron, timezone, overlap, enabled: true, catch_up_window_seconds: 3600, jitter_seconds: 0, created_at: at(9e6), updated_at: at(9e5),
      ...(next && { next_run_at: at(next) }),
      last_run_at: at(1260 * (index + 1)), last_run_id: last === "failed" ? ids.failed : ids.done, ...more,
    })),
    connections: [
      { name: "erp", type: "http", url: "https://erp.example.com/api", auth: { type: "bearer" }, headers: [], allowed_methods: ["GET"], status: "ready", description: "Orders and suppliers", created_at: at(9e6), updated_at: at(9e5) },
      { name: "crm", type: "mcp", url: "https://mcp.crm.example.com/mcp", auth: { type: "oauth" }, headers: [], status: "needs_authorization", error: "nobody has authorized it yet", created_at: at(9e6), updated_at: at(9e5) },
      { name: "shop", type: "http", url: "https://shop.example.com/api", auth: { type: "header" }, headers: ["X-Shop"], status: "error", error: "answered 403", created_at: at(9e6), updated_at: at(9e5) },
    ],
    catalog: [["linear", "mcp", "https://mcp.linear.app/mcp", "oauth"], ["notion", "mcp", "https://mcp.notion.com/mcp", "oauth"], ["sentry", "mcp", "https://mcp.sentry.dev/mcp", "oauth"], ["stripe", "mcp", "https://mcp.stripe.com", "bearer"]].map(([name, type, url, auth]) => ({ name, type, url, auth: { type: auth } })),
    keys: [
      { id: "key_01kafs6w1cefkstv6qr1ptb0mp", name: "ops", role: "admin", created_at: at(9e6), last_used_at: at(60) },
      { id: "key_01kafs6w1cefkstv6qr1ptb1mp", name: "ci", role: "member", created_at: at(5e6), last_used_at: at(7200), expires_at: at(-2e6) },
      { id: "key_01kafs6w1cefkstv6qr1ptb2mp", name: "support desk", role: "member", created_at: at(4e6), previous_until: at(-40_000) },
    ],
    budgets: [
      { scope: "organization", period: "month", limit_micros: 100e6, spent_micros: 42.18e6, held_micros: 3.1e6, available_micros: 54.72e6, resets_at: at(-700_000), created_at: at(9e6), updated_at: at(9e5) },
      { scope: "workflow:price-watch", period: "day", limit_micros: 5e6, spent_micros: 4.31e6, held_micros: 0.25e6, available_micros: 0.44e6, resets_at: at(-40_000), created_at: at(9e6), updated_at: at(9e5) },
    ],
    deliveries: [
      { run_id: ids.failed, receiver: "hooks.example.com:443", state: "retrying", attempts: 3, last_attempt_at: at(30), next_at: at(-10), status: 502, error: "answered 502" },
      { run_id: ids.timedOut, receiver: "ops.example.com:443", state: "abandoned", attempts: 12, last_attempt_at: at(3600), error: "connection refused" },
    ],
    files: [
      { id: "file_01kafs6w1cefkstv6qr1ptb0mp", name: "2026-w47.csv", size: 41_210, content_type: "text/csv", sha256: "a".repeat(64), created_at: at(9e5) },
      { id: "file_01kafs6w1cefkstv6qr1ptb1mp", name: "handbook.pdf", size: 2_410_000, content_type: "application/pdf", sha256: "b".repeat(64), created_at: at(9e5) },
    ],
    attempts: [
      { attempt: 1, at: at(140), status: 502, error: "answered 502", duration_ms: 48, next_at: at(130) },
      { attempt: 2, at: at(130), duration_ms: 10_000, error: "no answer within 10 s", next_at: at(110) },
      { attempt: 3, at: at(110), status: 204, duration_ms: 31 },
    ],
    fires: [
      { instant: at(1260), outcome: "started", trigger: "timetable", recorded_at: at(1260), run_id: ids.done },
      { instant: at(4860), outcome: "skipped", reason: "overlap", trigger: "timetable", recorded_at: at(4860) },
      { instant: at(8460), outcome: "started", trigger: "manual", recorded_at: at(8460), run_id: ids.failed },
    ],
  };
}

/** Usage by day and another dimension, for `days` days until `now`. */
export function usageOf(now, by, from, to) {
  const names = { workflow: ["price-watch", "hourly-digest", "invoice-triage", undefined], model: ["claude-sonnet-5-5", "claude-haiku-5-5", "gemini-3.5-flash"], key: ["key_01kafs6w1cefkstv6qr1ptb0mp"] };
  const dimension = by.find((one) => one !== "day");
  const rows = [];
  const totals = { cost_micros: 0, runs: 0, succeeded: 0, usage: { input_tokens: 0, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0, model_calls: 0, tool_calls: 0 } };
  for (let day = Date.parse(from); day <= Math.min(Date.parse(to), now); day += 86_400_000) {
    for (const [index, name] of (names[dimension] ?? [undefined]).entries()) {
      const wave = 1 + Math.sin(day / 86_400_000 / 2.1 + index * 1.7) * 0.45 + ((day / 86_400_000) % 7 < 2 ? -0.35 : 0);
      const figures = { cost_micros: Math.round((620_000 - index * 140_000) * wave), runs: Math.round((30 + index * 8) * wave), succeeded: Math.round((29 + index * 8) * wave), usage: { input_tokens: Math.round(210_000 * wave), output_tokens: Math.round(41_000 * wave), cache_read_tokens: Math.round(640_000 * wave), cache_write_tokens: 0, model_calls: 90, tool_calls: 140 } };
      rows.push({ ...figures, ...(by.includes("day") && { day: new Date(day).toISOString().slice(0, 10) }), ...(dimension && name && { [dimension === "key" ? "key_id" : dimension]: name }) });
      for (const field of ["cost_micros", "runs", "succeeded"]) totals[field] += figures[field];
      for (const field of Object.keys(totals.usage)) totals.usage[field] += figures.usage[field];
    }
  }
  return { by, from, to, rows, totals };
}
