import assert from "node:assert/strict";
import { test } from "node:test";
import { ansiPieces } from "../../src/model/ansi.ts";
import { cli, curl } from "../../src/model/command.ts";
import { cronWords } from "../../src/model/cron.ts";
import { diffFields, diffLines } from "../../src/model/diff.ts";
import { feedQuery, fromQuery, isListed, toApi, toQuery, viewOf, withView } from "../../src/model/filters.ts";
import { jsonPieces, prettyJson } from "../../src/model/json.ts";
import { money, parseMoney, plainMoney } from "../../src/model/money.ts";
import { fieldsOf, messagesByField, textOf, valueOf } from "../../src/model/schema.ts";
import { age, bytes, count, duration, until } from "../../src/model/time.ts";

test("cron expressions in words", () => {
  const words: [string, string | undefined][] = [
    ["* * * * *", "Every minute"],
    ["*/15 * * * *", "Every 15 minutes"],
    ["@hourly", "Every hour at :00"],
    ["5 * * * *", "Every hour at :05"],
    ["0 */2 * * *", "Every 2 hours"],
    ["30 7 * * MON-FRI", "At 07:30, Monday to Friday"],
    ["0 9,17 * * 1,4", "At 09:00 and 17:00, Monday and Thursday"],
    ["0 8-18 * * *", "Every hour at :00 from 08 to 18"],
    ["@daily", "Every day at 00:00"],
    ["0 6 1,15 * *", "At 06:00, on day 1 and 15 of the month"],
    ["@yearly", "At 00:00, on 1 January"],
    ["0 0 * * 7", "At 00:00, Sunday"],
    ["0 0 */2 * 1", undefined],
    ["0 0 * * 9", undefined],
    ["nonsense", undefined],
  ];
  for (const [expression, sentence] of words) assert.equal(cronWords(expression), sentence, expression);
});

test("money", () => {
  assert.deepEqual([0, 1, 204_000, 9_999_499, 42_180_000].map(money), [
    "$0.000",
    "<$0.001",
    "$0.204",
    "$9.999",
    "$42.18",
  ]);
  assert.deepEqual([250_000, 5_000_000, 500].map(plainMoney), ["$0.25", "$5", "$0.0005"]);
  assert.deepEqual(["$0.25", "1,000", ".5", "0.0000001", "-1", "one"].map(parseMoney), [
    250_000,
    1_000_000_000,
    500_000,
    undefined,
    undefined,
    undefined,
  ]);
});

test("times, sizes and counts", () => {
  assert.deepEqual([38, 3800, 59_960, 252_000, 600_000, 7_500_000].map(duration), [
    "38 ms",
    "3.8 s",
    "1 min",
    "4 min 12 s",
    "10 min",
    "2 h 5 min",
  ]);
  assert.deepEqual([500, 12_000, 180_000, 7_200_000, 200_000_000].map(age), ["now", "12 s", "3 min", "2 h", "2 d"]);
  assert.equal(until("2026-11-22T10:39:00Z", Date.parse("2026-11-22T10:00:00Z")), "in 39 min");
  assert.deepEqual([512, 14_200, 18_212, 104_857_600].map(bytes), ["512 B", "14.2 KB", "18.2 KB", "105 MB"]);
  assert.deepEqual([981, 9_999, 38_400, 1_200_000].map(count), ["981", "9,999", "38.4k", "1.2M"]);
});

test("differences of lines and fields", () => {
  const lines = diffLines("a\nb\nc\nd", "a\nx\nc\nd\ne").map(({ change, text }) => `${change[0]}${text}`);
  assert.deepEqual(lines, ["sa", "rb", "ax", "sc", "sd", "ae"]);
  assert.deepEqual(
    diffLines("", "").map(({ change }) => change),
    ["same"],
  );
  const long = Array.from({ length: 3000 }, (_, index) => String(index)).join("\n");
  assert.equal(diffLines(long, long.replaceAll("1", "x")).filter(({ change }) => change === "same").length > 0, true);
  assert.deepEqual(diffFields({ model: "a", shell: true }, { model: "b", shell: true, tags: [] }), [
    { field: "model", before: "a", after: "b" },
    { field: "tags", before: "", after: "[]" },
  ]);
});

test("forms from schemas", () => {
  const schema = {
    type: "object",
    required: ["week"],
    properties: {
      week: { type: "string", title: "Week" },
      tolerance: { type: "number", minimum: 0, maximum: 1 },
      kind: { enum: ["a", "b"] },
      rows: { type: "array" },
      is_final: { type: "boolean" },
    },
  };
  const fields = fieldsOf(schema)!;
  assert.deepEqual(
    fields.map(({ label, type, isRequired }) => [label, type, isRequired]),
    [
      ["Week", "text", true],
      ["Tolerance", "number", false],
      ["Kind", "choice", false],
      ["Rows", "json", false],
      ["Is final", "boolean", false],
    ],
  );
  assert.equal(fields[1]!.hint, "0 to 1");
  assert.equal(fieldsOf({ type: "string" }), undefined);
  assert.deepEqual(
    [valueOf("number", "-0.01"), valueOf("number", "x"), valueOf("json", "[1]"), valueOf("text", "")],
    [-0.01, "x", [1], undefined],
  );
  assert.deepEqual([textOf("number", 3), textOf("json", { a: 1 }), textOf("text", "a")], ["3", '{\n  "a": 1\n}', "a"]);
  const messages = messagesByField(
    'input.tolerance: less than 0; input.items[2].price: not of type "number"; timeout_seconds: must be at least 1; a day at most',
  );
  assert.deepEqual(
    [...messages],
    [
      ["input.tolerance", "less than 0"],
      ["input.items[2].price", 'not of type "number"'],
      ["timeout_seconds", "must be at least 1; a day at most"],
    ],
  );
  assert.equal(messagesByField("not JSON; line 1").size, 0);
});

test("requests as commands", () => {
  const request = { prompt: "What's new?", model: "m", shell: false, tags: ["a b"], input: { week: 1 }, web: true,
    metadata: { customer: "c 1" }, max_cost_micros: 500_000, connections: {} };
  assert.equal(
    curl({ method: "POST", path: "/v1/runs", body: { prompt: "it's" } }, "http://localhost:8080"),
    `curl -sS --fail-with-body \\
  http://localhost:8080/v1/runs \\
  -H "Authorization: Bearer $SORTIE_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '{"prompt":"it'\\''s"}'`,
  );
  const { command, leftOut } = cli(request);
  assert.equal(
    command,
    `sortie run \\
  --model m \\
  --max-cost 0.5usd \\
  --input '{"week":1}' \\
  --tag 'a b' \\
  --metadata 'customer=c 1' \\
  --no-shell \\
  --web \\
  -- 'What'\\''s new?'`,
  );
  assert.deepEqual(leftOut, ["connections"]);
});

test("colours become classes, other controls become visible", () => {
  assert.deepEqual(ansiPieces("\u001b[1;32mok\u001b[0m \u0007a\u202eb\u001b[2J"), [
    { text: "ok", className: "ansi-bold ansi-green" },
    { text: " ␇a⟨U+202E⟩b", className: "" },
  ]);
  assert.deepEqual(ansiPieces("\u001b[38;5;31mx\u001b[39m"), [{ text: "x", className: "" }]);
});

test("JSON in pieces", () => {
  assert.deepEqual(
    jsonPieces('{"a": 1, "b": "x"}')
      .filter(({ className }) => className)
      .map(({ text, className }) => className + text),
    ['k"a"', "n1", 'k"b"', 's"x"'],
  );
  assert.equal(prettyJson('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(prettyJson("no"), undefined);
});

test("filters in the address and in the query", () => {
  const filters = fromQuery(new URLSearchParams("status=failed,timed_out,interrupted&since=24h&tag=shop"));
  assert.equal(viewOf(filters), "failed");
  assert.equal(toQuery(withView(filters, "all")).toString(), "tag=shop&since=24h");
  assert.equal(toApi(filters, Date.parse("2026-11-22T10:00:30Z")).get("since"), "2026-11-21T10:00:00.000Z");
});

test("the feed brings runs that come into a filter and out of it", () => {
  const filters = fromQuery(new URLSearchParams("status=failed,timed_out&tag=shop&error=Budget"));
  assert.equal(feedQuery(toQuery(filters)).toString(), "tag=shop");
  assert.equal(isListed({ status: "failed", error: "budget exhausted" }, filters), true);
  assert.equal(isListed({ status: "succeeded" }, filters), false);
  assert.equal(isListed({ status: "failed", error: "other" }, filters), false);
  assert.equal(
    isListed({ status: "running", cost_micros: 5 }, fromQuery(new URLSearchParams("min_cost_micros=6"))),
    false,
  );
});
