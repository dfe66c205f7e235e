// Follows a run of 100 events a second: node test/flood.mjs [SECONDS]
import { startServer } from "./server.mjs";
import { launch, openPage } from "./browser.mjs";

const seconds = Number(process.argv[2] ?? 600);
const server = await startServer();
const browser = await launch();
const { page, context, go, problems } = await openPage(browser, server);
const session = await context.newCDPSession(page);
await go("/runs/@flood");
await page.locator(".row").first().waitFor();
await page.waitForTimeout(2000);
await page.evaluate(() => {
  globalThis.frames = [];
  let last = performance.now();
  const step = (now) => {
    globalThis.frames.push(now - last);
    last = now;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
});
for (let passed = 0; passed <= seconds; passed += Math.min(30, seconds)) {
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const frames = (await page.evaluate(() => globalThis.frames.splice(0))).sort((a, b) => a - b);
  const events = await page.locator(".run-tabs a[aria-current] ~ a .n").first().textContent();
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  console.log(
    `${passed} s: ${(usedSize / 1e6).toFixed(1)} MB, ${events} events, ${nodes} nodes, frames p50 ${frames[frames.length >> 1]?.toFixed(0)} p95 ${frames[Math.floor(frames.length * 0.95)]?.toFixed(0)} most ${frames.at(-1)?.toFixed(0)} ms`,
  );
  if (passed < seconds) await page.waitForTimeout(Math.min(30, seconds) * 1000);
}
await browser.close();
server.close();
if (problems.length) throw new Error(problems.join("\n"));
