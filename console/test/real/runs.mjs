// Journeys 2, 4 to 6, 8 and 9: runs, from the first request to the comparison of two.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";

const LINES = "Ada\nGrace\nEdsger\n";
const REPORT = `Count the names of names.txt.

\`\`\`sh
mkdir -p outputs && sleep 0.3 && wc -l < names.txt | tee outputs/count.txt
\`\`\`

\`\`\`answer
There are {{1}} names.
\`\`\`
`;
const SLOW = "Wait for a while.\n\n```wait 60000\n```";

const answerOf = (page) => page.locator(".answer");

/** Starts a run from the form with a dropped file, and follows it to its answer. */
export async function fromPrompt({ open }, options) {
  const { page, go, audit } = await open(options);
  await go("/runs/new");
  await page.getByLabel("Prompt", { exact: true }).fill(REPORT);
  await page.locator("input[type=file]").setInputFiles({
    name: "names.txt",
    mimeType: "text/plain",
    buffer: Buffer.from(LINES),
  });
  await page.getByText("sent with the run").waitFor();
  await page.getByRole("button", { name: "Model" }).or(page.getByLabel("Model", { exact: true })).first().waitFor();
  await page.getByLabel("Model", { exact: true }).selectOption("runbook");
  await audit();
  await page.getByRole("button", { name: "Start" }).click();
  await page.waitForURL(/runs\/run_/);
  await answerOf(page).getByText("There are 3 names.").waitFor();
  await page.getByText("Succeeded").first().waitFor();
  await go(`${new URL(page.url()).pathname.replace("/console", "")}?tab=files`);
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download count.txt" }).click();
  const hash = createHash("sha256").update(await readFile(await (await download).path())).digest("hex");
  assert.equal(hash, createHash("sha256").update("3\n").digest("hex"));
  await page.locator(`[title="${hash}"]`).waitFor({ state: "attached" });
  return page;
}

/** Cancels a run that works. */
export async function cancelled({ open, engine }, options) {
  const id = await engine.run({ prompt: SLOW, model: "runbook" });
  const { page, go, audit } = await open(options);
  await go(`/runs/${id}`);
  await page.getByText("Running").first().waitFor();
  await audit();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("is not undone").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled").first().waitFor();
  assert.equal((await engine.ended(id)).status, "cancelled");
}

const failing = async ({ open, engine }, request, sentence, { withEvent = true } = {}) => {
  const id = await engine.run(request);
  const run = await engine.ended(id);
  const { page, go } = await open();
  await go(`/runs/${id}`);
  await page.getByRole("note").getByText(sentence).first().waitFor();
  if (withEvent) {
    await page.getByRole("button", { name: "Show the event" }).click();
    await page.waitForURL(/event=\d+/);
    await page.locator('.row[aria-selected="true"]').waitFor();
  }
  return { run, page };
};

export default {
  "2 starts a run from a prompt with a file, follows it, downloads what it left": (world) => fromPrompt(world),

  async "2 shows text while the model writes it, and a retry in words"({ open, engine }) {
    const writing = await engine.run({ prompt: "script:writes" });
    const { page, go } = await open();
    await go(`/runs/${writing}?tab=trace`);
    await page.getByText("lazy dog").first().waitFor();
    await engine.ended(writing);
    const retried = await engine.run({ prompt: "script:retry" });
    await go(`/runs/${retried}?tab=trace`);
    await page.getByText("Model call retried").first().waitFor();
    await page.getByText("second attempt").first().waitFor();
  },

  "4 cancels a run": (world) => cancelled(world),

  async "5 replays a run with an edit, and compares both"({ open, engine }) {
    const metadata = { customer: "c-1042" };
    const id = await engine.run({ prompt: "```answer\nfirst\n```", model: "runbook", tags: ["replayed"], metadata });
    await engine.ended(id);
    const { page, go } = await open();
    await go(`/runs/${id}`);
    await page.getByText("customer: c-1042").waitFor();
    await answerOf(page).getByText("first").first().waitFor();
    await page.keyboard.press("r");
    await page.getByText("Original run").waitFor();
    await page.getByLabel("Prompt", { exact: true }).fill("```answer\nsecond\n```");
    await page.getByLabel("Budget").fill("$0.75");
    await page.getByRole("button", { name: "Start" }).click();
    await page.waitForURL((url) => /runs\/run_/.test(url.pathname) && !url.pathname.includes(id));
    await answerOf(page).getByText("second").first().waitFor();
    await page.getByText("replay of").first().waitFor();
    await page.getByText("customer: c-1042").waitFor();
    await page.keyboard.press("c");
    await page.waitForURL(/runs\/compare/);
    await page.getByText("max_cost_micros").first().waitFor();
    await page.getByText("second").first().waitFor();
  },

  async "6 says first why a run failed"(world) {
    await failing(world, { prompt: "```sh\nexit 3\n```", model: "runbook" }, "exited with status 3");
  },
  async "6 says that the time limit was reached, and where the time went"(world) {
    const { run } = await failing(
      world,
      { prompt: "```sh\nsleep 30\n```", model: "runbook", timeout_seconds: 1 },
      "The run reached its time limit of 1 s",
    );
    assert.equal(run.status, "timed_out");
  },
  async "6 says that the budget was reached"(world) {
    await failing(world, { prompt: "script:costly", max_cost_micros: 400_000 }, "budget");
  },
  async "6 says why an answer was rejected"(world) {
    const output_schema = { type: "object", required: ["price"], properties: { price: { type: "number" } } };
    await failing(world, { prompt: "script:rejected", output_schema }, "price");
  },
  async "7 shows ten thousand events, and opens one of them by its link"({ open, engine }) {
    const id = await engine.run({ prompt: "script:many", files: [{ path: "notes.txt", content: "notes\n" }] });
    const run = await engine.ended(id);
    assert.ok(run.last_event_id > 10_000, `${run.last_event_id} events`);
    const { page, go } = await open();
    await go(`/runs/${id}?event=9000`);
    // The row is that of the event's call, which begins up to 98 events earlier. Until the events up to it are read, the
    // nearest row is selected.
    await page.waitForFunction(() => {
      const near = Number(document.querySelector('.row[aria-selected="true"] .id')?.textContent);
      return near <= 9000 && near > 9000 - 100;
    });
    await page.locator(".rows").focus();
    for (let count = 0; count < 5; count += 1) await page.keyboard.press("j");
    await page.waitForURL((url) => url.searchParams.get("event") !== "9000");
    const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
    assert.ok(nodes < 1500, `${nodes} nodes`);
  },

  async "8 reads an answer with zero data retention only when asked, and once"({ open, engine }) {
    const id = await engine.run({
      prompt: "```answer\nThe code is 4711.\n```",
      model: "runbook",
      zero_data_retention: true,
      tags: ["unretained"],
    });
    await engine.ended(id);
    const { page, go } = await open();
    await go("/runs?tag=unretained");
    await page.locator(`a[href$="${id}"]`).first().click();
    await page.getByText("Zero data retention").first().waitFor();
    await page.getByText("can be read once").waitFor();
    await page.reload();
    await page.getByRole("button", { name: "Read and delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Read and delete" }).click();
    await page.getByText("The code is 4711.").waitFor();
    await page.reload();
    await page.getByText("is deleted").first().waitFor();
    assert.equal(await page.getByText("4711").count(), 0);
  },

  "9 filters, searches, pages and keeps the list up to date": (world) => lists(world),
};

/** Filters runs, follows the live list, and pages backwards. The address restores all. */
export async function lists({ open, engine }, options) {
  const tag = `t${Date.now()}`;
  await engine.answers(60, (number) => `Run number ${number} of ${tag}.`, { tags: [tag] });
  const failed = await engine.run({ prompt: `Fails in ${tag}.\n\n\`\`\`sh\nexit 4\n\`\`\``, model: "runbook", tags: [tag] });
  await engine.ended(failed);
  const { page, go, audit } = await open(options);
  const rows = page.locator("tbody tr");
  await go(`/runs?tag=${tag}`);
  await rows.nth(49).waitFor();
  assert.equal(await rows.count(), 50);
  await page.getByRole("button", { name: "Older" }).click();
  await rows.nth(60).waitFor();
  assert.equal(await rows.count(), 61);
  await audit();
  await page.getByRole("link", { name: "Failed", exact: true }).click();
  await rows.nth(1).waitFor({ state: "detached" });
  await rows.getByText("exited with status 4").waitFor();
  await page.reload();
  await rows.getByText("exited with status 4").waitFor();
  assert.equal(await rows.count(), 1);
  await page.getByRole("link", { name: "All", exact: true }).click();
  await page.getByRole("searchbox").fill(`Run number 17 of ${tag}`);
  await rows.nth(1).waitFor({ state: "detached" });
  await page.getByText("Run number 17 of").first().waitFor();
  await go(`/runs?tag=${tag}&status=queued,starting,running`);
  await page.getByText("No run matches").waitFor();
  await page.locator(".chip.state-live").waitFor({ state: "attached" });
  const live = await engine.run({ prompt: `Live in ${tag}.\n\n\`\`\`wait 60000\n\`\`\``, model: "runbook", tags: [tag] });
  await page.getByText(`Live in ${tag}`).waitFor();
  await engine.api(`POST /v1/runs/${live}/cancel`);
  await page.getByText(`Live in ${tag}`).waitFor({ state: "detached" });
}
