// Data of the development server: an installation with a few runs, as the engine would answer.
import {
  ANSWER,
  failed,
  interrupted,
  invoices,
  invoicesAgain,
  invoicesDone,
  many,
  recorded,
  timedOut,
} from "../events.mjs";
import { ids, newId } from "./ids.mjs";
import { resources } from "./resources.mjs";

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
  [
    900,
    "model_call",
    {
      model: "claude-haiku-5-5",
      step: 1,
      input_tokens: 100,
      output_tokens: 40,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      cost_micros: 900,
      duration_ms: 800,
      stop_reason: "tool_use",
    },
  ],
  [901, "message", { text: HOSTILE, step: 1 }],
  [
    950,
    "tool_start",
    { tool: "shell", id: "t1", arguments: { command: "printf '\\033]0;title\\007<b>x</b>\\u202e'" } },
  ],
  [
    990,
    "tool_end",
    {
      tool: "shell",
      id: "t1",
      is_error: false,
      output: "\u001b]0;title\u0007<b>x</b>\u202e \u001b[31mred\u001b[0m",
      output_bytes: 30,
      duration_ms: 40,
    },
  ],
  [
    1000,
    "artifact",
    { path: "<img src=x onerror=alert(1)>.svg", size: 90, sha256: "0".repeat(64), content_type: "image/svg+xml" },
  ],
  [1010, "result", { output: HOSTILE }],
  [1020, "status", { status: "succeeded" }],
];

const PROMPT = `Match this week’s invoices with the orders of the ERP.

Read every file in invoices/. For each invoice, find the order with the same supplier and sum. Allow the tolerance of the input. Write outputs/matches.json, and list what differs in a table.`;

const request = {
  prompt: PROMPT,
  input: { week: "2026-W47", tolerance: 0.01 },
  model: "claude-sonnet-5-5",
  files: [
    { path: "invoices/2026-w47.csv", file: "file_01kafs6w1cefkstv6qr1ptb0mp" },
    { path: "rules.md", content: "# Rules\n\nSums are equal within the tolerance.\n" },
  ],
  connections: { erp: { ref: "erp", allowed_methods: ["GET"] } },
  max_cost_micros: 250_000,
  timeout_seconds: 300,
  shell: true,
  tags: ["finance", "weekly"],
};

const replayed = {
  ...request,
  prompt: PROMPT.replace("list what differs in a table", "check together all orders that differ"),
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
  const usage = {
    input_tokens: 9000,
    output_tokens: 2900,
    cache_read_tokens: 27_000,
    cache_write_tokens: 0,
    model_calls: 4,
    tool_calls: 7,
  };
  const router = (tail, ticket, ago, length) =>
    run(newId("run", tail), "succeeded", ago, length, 1200, {
      workflow: "support-router",
      title: `Label ticket ${ticket} and find the owner`,
      tags: ["crm"],
      ...haiku,
    });
  const runs = [
    run(ids.live, "running", 46, undefined, 204_000, {
      ...triage,
      title: "Match this week’s invoices with orders",
      schedule_id: "sched_01kafs6w1cefkstv6qr1ptb0mp",
    }),
    run(newId("run", "dg01"), "running", 12.4, undefined, 12_000, {
      workflow: "hourly-digest",
      title: "Summarize the day for the team",
      tags: ["digest"],
      ...haiku,
    }),
    run(ids.queued, "queued", 2, undefined, 0, { title: "Translate the release notes into German", ...sonnet }),
    run(ids.failed, "failed", 200, 31.8, 18_000, {
      workflow: "price-watch",
      title: "Compare 48 prices with yesterday",
      error: "output does not match output_schema: output.items[3].price: required",
      tags: ["shop"],
      model: "gemini-3.5-flash",
    }),
    router("sr40", 8840, 260, 2.1),
    router("sr39", 8839, 380, 1.8),
    run(ids.timedOut, "timed_out", 720, 600, 871_000, {
      workflow: "crawl-docs",
      title: "Fetch every page below the handbook and check the links",
      error: "timeout_seconds: 600 seconds passed",
      timeout_seconds: 600,
      tags: ["docs"],
      ...sonnet,
    }),
    run(ids.interrupted, "interrupted", 2400, 9, 9000, {
      title: "Refund order 48402 and tell the customer",
      error: "the worker was lost during crm__create_ticket, which may have had its effect",
      tags: ["crm"],
      ...sonnet,
    }),
    run(newId("run", "dg00"), "succeeded", 3700, 18.9, 14_000, {
      workflow: "hourly-digest",
      title: "Summarize the day for the team",
      tags: ["digest"],
      ...haiku,
    }),
    run(newId("run", "cx00"), "cancelled", 3900, 4, 0, { title: "Rename the columns of orders.csv", model: "runbook" }),
    run(ids.done, "succeeded", 7300, 45.66, 204_000, {
      ...triage,
      title: "Match last week’s invoices with orders",
      output: ANSWER,
      usage,
      artifacts: invoicesDone.filter(([, type]) => type === "artifact").map(([, , data]) => data),
    }),
    run(ids.replay, "succeeded", 7200, 25.46, 159_000, {
      ...triage,
      title: "Match last week’s invoices with orders",
      replay_of: ids.done,
      output: invoicesAgain.at(-2)[2].output,
      usage: { ...usage, input_tokens: 6800, output_tokens: 2140, cache_read_tokens: 21_400, model_calls: 3, tool_calls: 4 },
      artifacts: invoicesAgain.filter(([, type]) => type === "artifact").map(([, , data]) => data),
    }),
    run(ids.retention, "succeeded", 7600, 3, 4000, {
      zero_data_retention: true,
      output_available: true,
      output_expires_at: at(-3000),
      usage,
      ...haiku,
    }),
    run(ids.hostile, "succeeded", 8000, 1, 900, {
      title: '<img src=x onerror="alert(1)"> \u202Etxt',
      output: HOSTILE,
      ...haiku,
    }),
    run(ids.many, "succeeded", 9000, 60, 310_000, {
      workflow: "crawl-docs",
      title: "Read ten thousand pages",
      tags: ["docs"],
      ...sonnet,
    }),
    router("sr38", 8838, 9100, 2.4),
    run(ids.flood, "running", 9200, undefined, 310_000, {
      workflow: "crawl-docs",
      title: "A hundred events a second",
      tags: ["docs"],
      ...sonnet,
    }),
  ];
  const scripts = {
    [ids.live]: recorded(now - 46_000, invoices),
    [ids.done]: recorded(now - 7_300_000, invoicesDone),
    [ids.replay]: recorded(now - 7_200_000, invoicesAgain),
    [ids.failed]: recorded(now - 200_000, failed),
    [ids.interrupted]: recorded(now - 2_400_000, interrupted),
    [ids.timedOut]: recorded(now - 720_000, timedOut),
    [ids.many]: recorded(now - 9_000_000, many(10_207)),
    [ids.flood]: recorded(now - 60_000, many(10_000).slice(0, -2)),
    [ids.hostile]: recorded(now - 8_000_000, hostile),
    [ids.queued]: recorded(now - 2000, [[0, "status", { status: "queued" }]]),
  };
  return {
    runs,
    scripts,
    definitions: {
      default: { request, requires_credentials: [] },
      [ids.replay]: { request: replayed, requires_credentials: [] },
      [ids.live]: { request: replayed, requires_credentials: ["erp"] },
    },
    ...resources(now, request),
  };
}
