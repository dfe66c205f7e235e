// Runs journeys, a few at once, and fails on any violation of the content policy, any error of a page and any finding of
// axe on the page where a journey ends.
import assert from "node:assert/strict";
import { join } from "node:path";
import { audit } from "./axe.mjs";
import { launch, openPage } from "./browser.mjs";

/** Pictures of the pages of journeys that failed. */
const PICTURES = join(import.meta.dirname, "../.build/failures");

/** Journeys that run at once: each waits most of its time. */
const AT_ONCE = 3;

/**
 * `world` makes what the journey of a name works with: its fields are given to the journey, `close` ends it. `options` are
 * those of every page. `wanted` is a part of the names of the journeys to run. Returns the number of failures.
 */
export async function runJourneys(journeys, { world, options, wanted = "" }) {
  const browser = await launch();
  const waiting = Object.entries(journeys).filter(([name]) => name.includes(wanted));
  let failures = 0;

  const run = async (name, journey) => {
    const started = Date.now();
    const opened = [];
    const { close, ...fields } = await world(name);
    const open = async ({ server = fields.server, ...more } = {}) => {
      const one = await openPage(browser, server, { ...options, ...more });
      one.page.setDefaultTimeout(options?.timeout ?? 10_000);
      one.audit = async () => one.problems.push(...(await audit(one.page)));
      opened.push(one);
      return one;
    };
    try {
      await journey({ open, ...fields });
      for (const one of opened) if (!one.page.isClosed()) await one.audit();
      assert.deepEqual(
        opened.flatMap(({ problems }) => problems),
        [],
      );
      console.log(`ok      ${name} (${Date.now() - started} ms)`);
    } catch (error) {
      failures += 1;
      const places = opened.filter(({ page }) => !page.isClosed()).map(({ page }) => page.url());
      console.log(`FAILED  ${name} (${Date.now() - started} ms)\n${error.stack}\n        at ${places.join(" ")}`);
      for (const [index, { page }] of opened.entries()) {
        const path = join(PICTURES, `${name.replace(/\W+/g, "-")}-${index}.png`);
        await page.screenshot({ path }).then(
          () => console.log(`        picture: ${path}`),
          (failure) => console.log(`        no picture: ${failure.message}`),
        );
      }
    }
    for (const { context } of opened) await context.close();
    await close?.();
  };

  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) await run(...next);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  await browser.close();
  return failures;
}
