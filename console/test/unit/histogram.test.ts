import assert from "node:assert/strict";
import { test } from "node:test";
import { columnsOf, selectedDays } from "../../src/model/histogram.ts";

const NONE = { workflow: "", model: "", key: "" };
const rows = [
  { day: "2026-11-20", workflow: "a", runs: 3, succeeded: 2 },
  { day: "2026-11-22", workflow: "a", runs: 1, succeeded: 1 },
  { day: "2026-11-22", workflow: "b", runs: 4, succeeded: 4 },
  { day: "2026-11-19", workflow: "a", runs: 9, succeeded: 9 },
];

test("has a column for each day, and sums what the filters leave", () => {
  const all = columnsOf(rows, "2026-11-20", 3, NONE);
  assert.deepEqual(
    all.map(({ day, runs, succeeded }) => [day, runs, succeeded]),
    [
      ["2026-11-20", 3, 2],
      ["2026-11-21", 0, 0],
      ["2026-11-22", 5, 5],
    ],
  );
  const ofB = columnsOf(rows, "2026-11-20", 3, { ...NONE, workflow: "b" });
  assert.deepEqual(
    ofB.map(({ runs }) => runs),
    [0, 0, 4],
  );
});

test("knows the columns of the time of the list", () => {
  const columns = columnsOf([], "2026-11-20", 3, NONE);
  const now = Date.parse("2026-11-22T12:00:00Z");
  assert.equal(selectedDays({ since: "", until: "" }, columns, now), undefined);
  assert.deepEqual(selectedDays({ since: "24h", until: "" }, columns, now), [1, 2]);
  assert.deepEqual(selectedDays({ since: "30d", until: "" }, columns, now), [0, 2]);
  const day = { since: "2026-11-21T00:00:00.000Z", until: "2026-11-22T00:00:00.000Z" };
  assert.deepEqual(selectedDays(day, columns, now), [1, 1]);
  assert.equal(selectedDays({ since: "yesterday", until: "" }, columns, now), undefined);
});
