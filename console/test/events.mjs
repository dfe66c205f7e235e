// Makes event streams for tests and for the development server. Times count from the start of the run.

/** Gives each entry `[ms, type, data]` its number and its time. */
export const recorded = (start, entries) =>
  entries.map(([ms, type, data], index) => ({
    id: index + 1,
    type,
    data,
    created_at: new Date(start + ms).toISOString(),
  }));

const call = (step, duration_ms, cost_micros, tokens, stop_reason = "tool_use", model = "claude-sonnet-5-5") => ({
  model,
  step,
  input_tokens: Math.round(tokens * 0.29),
  output_tokens: Math.round(tokens * 0.08),
  cache_read_tokens: Math.round(tokens * 0.71),
  cache_write_tokens: 0,
  cost_micros,
  duration_ms,
  stop_reason,
});

const tool = (id, name, args, start, length, output, more = {}) => [
  [start, "tool_start", { tool: name, id, arguments: args }],
  [
    start + length,
    "tool_end",
    { tool: name, id, is_error: false, output, output_bytes: output.length, duration_ms: length, ...more },
  ],
];

const request = (id, path, start, length, status, bytes) => {
  const [begin, end] = tool(
    id,
    "erp__request",
    { method: "GET", path },
    start,
    length,
    status === 404 ? "not found" : `{"path": "${path}"}`,
    { is_error: status >= 400 },
  );
  const made = { connection: "erp", method: "GET", path, status, bytes, duration_ms: length - 4 };
  return [begin, [start + length - 2, "connection_call", made], end];
};

const MATCHES =
  "[the command exited with status 0]\n[stdout]\n\u001b[2m$ 212 invoices, 209 orders\u001b[0m\nmatched      \u001b[32m209\u001b[0m\ndiffers        \u001b[33m2\u001b[0m   48213 48377\nno order       \u001b[33m1\u001b[0m   48402  INV-2291\nsum        \u001b[32m$184,020.55\u001b[0m\nwrote outputs/matches.json\n";

export const ANSWER = `Two of the three differences are explained, one needs a person.

| Order | Invoice | What differs |
|---|---|---|
| 48213 | INV-2274 | split across two deliveries, sums agree |
| 48377 | INV-2280 | split across two deliveries, sums agree |
| 48402 | **INV-2291** | no such order in the ERP |

Next steps:

1. Ask the supplier of **INV-2291** for its order number.
2. Book the two split deliveries, see \`outputs/matches.json\`.

> The tolerance was 0.01; nothing else differs.`;

/** The run of the first picture: three turns with calls, then the model writes. */
export const invoices = [
  [0, "status", { status: "queued" }],
  [12, "status", { status: "starting" }],
  [41, "worker_started", { runtime: "namespaces", mode: "self-hosted", shell: true }],
  [44, "status", { status: "running" }],
  [4300, "model_call", call(1, 3800, 21_000, 6200)],
  [4302, "message", { text: "I read the task and list the invoices.", step: 1 }],
  ...tool(
    "t1",
    "shell",
    { command: "ls -la invoices/ && head -3 invoices/*.csv" },
    4310,
    38,
    "2026-w47.csv\nsupplier,order,sum\n",
  ),
  ...request("t2", "/suppliers?active=true", 4352, 412, 200, 14_200),
  [14_600, "model_call", call(2, 9100, 64_000, 14_000)],
  [14_602, "thinking_summary", { text: "The tolerance decides which sums count as equal.", step: 2 }],
  [14_604, "message", { text: "I match suppliers to invoices.", step: 2 }],
  ...tool("t3", "shell", { command: "python3 match.py --tolerance 0.01" }, 14_700, 6214, MATCHES),
  ...tool(
    "t4",
    "write_file",
    { path: "outputs/matches.json", content: "{…}" },
    20_950,
    4,
    "wrote outputs/matches.json (18 KB)",
  ),
  [21_000, "retry", { what: "model_call", attempt: 2, delay_ms: 1200, reason: "529 overloaded" }],
  [34_700, "model_call", call(3, 12_400, 88_000, 18_200)],
  [34_702, "message", { text: "I check the three that differ.", step: 3 }],
  ...request("t5", "/orders/48213", 34_710, 388, 200, 2100),
  ...request("t6", "/orders/48377", 35_110, 401, 200, 1900),
  ...request("t7", "/orders/48402", 35_520, 366, 404, 120),
];

export const invoicesDone = [
  ...invoices,
  [45_600, "model_call", call(4, 9600, 31_000, 19_400, "end_turn")],
  [45_602, "message", { text: ANSWER, step: 4 }],
  [
    45_640,
    "artifact",
    {
      path: "matches.json",
      size: 18_212,
      sha256: "9f2c7a1d0e4b5c6f8a7b9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c8d9e0f",
      content_type: "application/json",
    },
  ],
  [
    45_642,
    "artifact",
    {
      path: "review.md",
      size: 1204,
      sha256: "1f2c7a1d0e4b5c6f8a7b9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c8d9e0f",
      content_type: "text/markdown",
    },
  ],
  [45_650, "result", { output: ANSWER }],
  [45_660, "status", { status: "succeeded" }],
];

const SECOND_ANSWER = ANSWER.replace("1. Ask the supplier of **INV-2291** for its order number.\n2. Book", "1. Book").replace(
  "no such order in the ERP",
  "order 48420 of the same supplier, sums agree",
).replace("one needs a person", "and the third has another number");

/** The same run again, with a prompt that asks for one check of all orders. */
export const invoicesAgain = [
  ...invoices.slice(0, 16).map(([ms, ...rest]) => [Math.round(ms * 0.9), ...rest]),
  [24_800, "model_call", call(3, 5100, 74_000, 17_400, "end_turn")],
  [24_810, "message", { text: SECOND_ANSWER, step: 3 }],
  ...invoicesDone.slice(-4, -2).map(([ms, ...rest]) => [ms - 20_800, ...rest]),
  [25_440, "result", { output: SECOND_ANSWER }],
  [25_460, "status", { status: "succeeded" }],
];

const begun = invoices.slice(0, 4);

export const failed = [
  ...begun,
  [9000, "model_call", call(1, 8800, 9000, 5200, "end_turn", "gemini-3.5-flash")],
  [9010, "output_rejected", { errors: ["output.items[3].price: required"], attempt: 1 }],
  [20_000, "model_call", call(2, 10_900, 5000, 6400, "end_turn", "gemini-3.5-flash")],
  [20_010, "output_rejected", { errors: ["output.items[3].price: required"], attempt: 2 }],
  [31_700, "model_call", call(3, 11_600, 4000, 7100, "end_turn", "gemini-3.5-flash")],
  [
    31_800,
    "status",
    { status: "failed", error: "output does not match output_schema: output.items[3].price: required" },
  ],
];

export const interrupted = [
  ...begun,
  [3000, "model_call", call(1, 2800, 9000, 5200)],
  [3010, "tool_start", { tool: "crm__create_ticket", id: "t1", arguments: { subject: "Refund for order 48402" } }],
  [9000, "interrupted", { reason: "uncertain_call", step: 1, tool: "crm__create_ticket", id: "t1" }],
  [
    9002,
    "status",
    { status: "interrupted", error: "the worker was lost during crm__create_ticket, which may have had its effect" },
  ],
];

export const timedOut = [
  ...begun,
  [6000, "model_call", call(1, 5800, 90_000, 9000)],
  ...tool(
    "t1",
    "shell",
    { command: "wget --recursive https://handbook.example.com" },
    6010,
    412_000,
    "FINISHED --2026-11-22--\nDownloaded: 812 files",
  ),
  [425_000, "budget_warning", { spent_micros: 800_000, limit_micros: 1_000_000 }],
  [440_000, "model_call", call(2, 14_000, 700_000, 150_000)],
  [440_500, "context_compacted", { before_tokens: 162_000, after_tokens: 24_000 }],
  ...tool("t2", "shell", { command: "linkchecker site/" }, 441_000, 150_000, "checked 4,112 links", { is_error: true }),
  [600_000, "status", { status: "timed_out", error: "timeout_seconds: 600 seconds passed" }],
];

/** A long run: `count` events of short calls, with a failure now and then. */
export function many(count) {
  const entries = [...begun];
  for (let turn = 1, ms = 100; entries.length < count - 2; turn += 1) {
    entries.push([ms + 40, "model_call", call(turn, 38, 300, 4000 + (turn % 400) * 300)]);
    entries.push([ms + 41, "message", { text: `Step ${turn}: look at the next page.`, step: turn }]);
    for (let index = 0; index < 4; index += 1) {
      entries.push(
        ...tool(
          `t${turn}-${index}`,
          index % 2 ? "read_file" : "shell",
          index % 2 ? { path: `pages/${turn}.md` } : { command: `grep -c total pages/${turn}-${index}.csv` },
          ms + 45 + index * 9,
          7,
          `${turn * index}\n`,
          { is_error: turn % 97 === 0 && index === 2 },
        ),
      );
    }
    ms += 95;
  }
  entries.push([entries.at(-1)[0] + 10, "result", { output: "All pages were read." }]);
  entries.push([entries.at(-1)[0] + 12, "status", { status: "succeeded" }]);
  return entries;
}
