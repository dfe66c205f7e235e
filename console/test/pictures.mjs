// Takes a picture of each page on fixed data and checks it with axe: node test/pictures.mjs [FOLDER [PAGES [LOOKS]]],
// where PAGES is a regular expression and LOOKS are such as "light-1440 dark-390".
import { mkdirSync } from "node:fs";
import { audit } from "./axe.mjs";
import { startServer } from "./server.mjs";
import { launch, NOW, openPage } from "./browser.mjs";

const press =
  (...keys) =>
  async (page) => {
    for (const key of keys) await page.keyboard.press(key);
  };
const click = (name) => (page) => page.getByRole("button", { name, exact: true }).first().click();

const PAGES = [
  ["sign-in", "/runs", { isSignedIn: false }],
  ["organizations", "/", { kind: "hosted" }],
  ["members", "/o/org_new/members", { kind: "hosted" }],
  ["credits", "/o/org_new/credits", { kind: "hosted" }],
  ["runs", "/runs"],
  ["runs-filtered", "/runs?status=failed,timed_out,interrupted&since=24h"],
  ["runs-selected", "/runs", { act: press("j", "x", "j", "x") }],
  ["runs-empty", "/runs", { kind: "empty" }],
  ["runs-no-match", "/runs?q=nothing"],
  ["palette", "/runs", { act: press("Control+k") }],
  ["shortcuts", "/runs", { act: press("?") }],
  ["run-live", "/runs/@live?event=15"],
  ["run-following", "/runs/@live"],
  ["run-answer", "/runs/@done"],
  ["run-trace", "/runs/@done?tab=trace"],
  ["run-filter", "/runs/@done?tab=trace&failures="],
  ["run-transcript", "/runs/@done?tab=transcript"],
  ["run-events", "/runs/@done?tab=events&event=12"],
  ["run-files", "/runs/@done?tab=files"],
  ["run-tools", "/runs/@done?tab=tools"],
  ["run-definition", "/runs/@done?tab=definition"],
  ["run-deliveries", "/runs/@done?tab=deliveries"],
  ["run-failed", "/runs/@failed"],
  ["run-interrupted", "/runs/@interrupted"],
  ["run-timed-out", "/runs/@timedOut"],
  ["run-retention", "/runs/@retention"],
  ["run-hostile", "/runs/@hostile"],
  ["run-many", "/runs/@many?event=9000"],
  ["run-missing", "/runs/run_00000000000000000000000000"],
  ["new", "/runs/new"],
  ["new-workflow", "/runs/new?workflow=invoice-triage"],
  ["new-replay", "/runs/new?from=@done"],
  ["compare", "/runs/compare?a=@done&b=@replay"],
  ["compare-choose", "/runs/compare?a=@done"],
  ["workflows", "/workflows"],
  ["workflow", "/workflows/invoice-triage"],
  ["schedules", "/schedules"],
  ["schedule-new", "/schedules?new=invoice-triage"],
  ["connections", "/connections"],
  ["connection-new", "/connections", { act: click("New connection") }],
  ["connection-authorize", "/connections", { act: click("Authorize") }],
  ["models", "/models"],
  ["models-empty", "/models", { kind: "empty" }],
  ["keys", "/keys"],
  ["key-new", "/keys", { act: click("New key") }],
  ["usage", "/usage"],
  ["budgets", "/budgets"],
  ["budgets-empty", "/budgets", { kind: "empty" }],
  ["deliveries", "/deliveries"],
  ["not-found", "/nowhere"],
];

const [folder = ".build/pictures", wanted, looks = "light-1440 dark-1440 light-390 dark-390"] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await launch();
let findings = 0;
const servers = {
  full: await startServer({ now: NOW, isStill: true }),
  empty: await startServer({ now: NOW, isStill: true, isEmpty: true }),
  hosted: await startServer({ now: NOW, isStill: true, isHosted: true }),
};
for (const width of [1440, 390]) {
  for (const scheme of ["light", "dark"]) {
    for (const [name, path, { isSignedIn = true, kind = "full", act } = {}] of PAGES) {
      if ((wanted && !new RegExp(`^(${wanted})$`).test(name)) || !looks.includes(`${scheme}-${width}`)) continue;
      const server = servers[kind];
      const { page, context, go, problems } = await openPage(browser, server, {
        width,
        scheme,
        isSignedIn,
        now: NOW,
        bypassCSP: true,
      });
      await go(path);
      await page.waitForTimeout(250);
      await page.clock.runFor(400);
      await page.waitForTimeout(100);
      await act?.(page);
      await page.waitForTimeout(100);
      await page.screenshot({ path: `${folder}/${name}-${scheme}-${width}.png` });
      problems.push(...(await audit(page)));
      if (problems.length) console.log(`${name} ${scheme} ${width}\n  ${problems.join("\n  ")}`);
      findings += problems.length;
      await context.close();
    }
  }
}
await browser.close();
for (const server of Object.values(servers)) server.close();
console.log(`${findings} findings`);
process.exitCode = findings ? 1 : 0;
