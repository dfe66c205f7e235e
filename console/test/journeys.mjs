// Drives Chromium through the console: node test/journeys.mjs [NAME]
import assert from "node:assert/strict";
import { startServer } from "./server.mjs";
import { launch, openPage } from "./browser.mjs";
import manage from "./journeys/manage.mjs";
import run from "./journeys/run.mjs";
import runs from "./journeys/runs.mjs";
import session from "./journeys/session.mjs";

const journeys = { ...session, ...runs, ...run, ...manage };

const wanted = process.argv[2];
const browser = await launch();
let failures = 0;
for (const [name, journey] of Object.entries(journeys)) {
  if (wanted && !name.includes(wanted)) continue;
  const servers = [await startServer()];
  const [server] = servers;
  const serve = async (options) => {
    servers.push(await startServer(options));
    return servers.at(-1);
  };
  const opened = [];
  const open = async ({ server: other = server, ...options } = {}) => {
    const one = await openPage(browser, other, options);
    one.page.setDefaultTimeout(5000);
    opened.push(one);
    return one;
  };
  const started = Date.now();
  try {
    await journey({ open, server, serve });
    assert.deepEqual(
      opened.flatMap(({ problems }) => problems),
      [],
    );
    console.log(`ok      ${name} (${Date.now() - started} ms)`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
  for (const { context } of opened) await context.close();
  for (const one of servers) one.close();
}
await browser.close();
console.log(failures ? `${failures} failed` : "all journeys passed");
process.exitCode = failures ? 1 : 0;
