// Measures the sign-in page, the runs list and a run of 10,000 events: node test/figures.mjs [ROUNDS] [--real]
//
// Each page is opened with an empty cache, the list and the run by somebody who has used the console before.
// On fixed data, or with --real on an engine: target/debug/sortie, or SORTIE_BINARY.
import { startServer } from "./server.mjs";
import { launch, openPage } from "./browser.mjs";
import { cookieOf, startWorld } from "./real/world.mjs";

const isReal = process.argv.includes("--real");
const rounds = Number(process.argv[2] ?? 7) || 7;

/** An engine with sixty runs and one of ten thousand events. */
async function realServer() {
  const { engine, close } = await startWorld();
  const many = await engine.run({ prompt: "script:many", files: [{ path: "notes.txt", content: "notes\n" }] });
  await engine.answers(60);
  const run = await engine.ended(many);
  console.log(`a run of ${run.last_event_id} events`);
  return { server: { origin: engine.origin, ids: { many } }, cookie: () => cookieOf(engine.origin, engine.key), close };
}

async function fixedServer() {
  const server = await startServer();
  return { server, close: server.close };
}

const figures = {};
const note = (name, value) => (figures[name] ??= []).push(value);

const { server, close, ...options } = await (isReal ? realServer() : fixedServer());
const browser = await launch();

/** The browser may note the paint later than the test finds the element. */
async function firstPaint(page) {
  const paint = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  return (await page.waitForFunction(paint)).jsonValue();
}

/** Opens a page of somebody who has a session, and whose browser remembers it. */
async function openKnown() {
  const known = await openPage(browser, server, options);
  await known.page.addInitScript(() => localStorage.setItem("sortie.session", "yes"));
  return known;
}

for (let round = 0; round < rounds; round += 1) {
  const signIn = await openPage(browser, server, { ...options, isSignedIn: false });
  await signIn.go("/runs");
  await signIn.page.getByLabel("API key").waitFor();
  note("first contentful paint of the sign-in page, ms", await firstPaint(signIn.page));
  await signIn.context.close();

  const list = await openKnown();
  await list.go("/runs");
  await list.page.locator("tbody tr").first().waitFor();
  note("first contentful paint of the list, ms", await firstPaint(list.page));
  note("first rows of the list, ms", await list.page.evaluate(() => performance.now()));
  await list.context.close();

  const { page, context, go } = await openKnown();
  await page.addInitScript(() => {
    const look = () => {
      const rows = document.querySelector(".rows")?.getAttribute("aria-rowcount");
      if (Number(rows) > 5000 && document.querySelector(".chip.state-ended"))
        globalThis.completeAt ??= performance.now();
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await go("/runs/@many?tab=trace");
  await page.waitForFunction(() => globalThis.completeAt);
  note("10,000 events to the complete trace, ms", await page.evaluate(() => globalThis.completeAt));
  note("nodes", await page.evaluate(() => document.querySelectorAll("*").length));
  const session = await context.newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  note("heap, MB", (await session.send("Runtime.getHeapUsage")).usedSize / 1e6);
  const frames = await page.evaluate(
    () =>
      new Promise((resolve) => {
        const box = document.querySelector(".rows");
        const times = [];
        const start = performance.now();
        let last = start;
        const step = (now) => {
          times.push(now - last);
          last = now;
          box.scrollTop = (box.scrollHeight * (now - start)) / 2000;
          if (now - start < 2000) requestAnimationFrame(step);
          else resolve(times.slice(1).sort((a, b) => a - b));
        };
        requestAnimationFrame(step);
      }),
  );
  note("frames while scrolling through all in 2 s, p95 ms", frames[Math.floor(frames.length * 0.95)]);
  await context.close();
}
await browser.close();
await close();
for (const [name, values] of Object.entries(figures)) {
  values.sort((a, b) => a - b);
  const text = (value) => (value < 100 ? value.toFixed(1) : Math.round(value));
  console.log(`${name}: ${text(values[values.length >> 1])} [${text(values[0])}..${text(values.at(-1))}]`);
}
