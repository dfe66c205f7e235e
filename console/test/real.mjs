// Drives Chromium through the console of the real binary: node test/real.mjs [NAME]
//
// On SQLite, or on the server of SORTIE_TEST_POSTGRES_URL. A journey has the number of the design.
import browser from "./real/browser.mjs";
import hosted from "./real/hosted.mjs";
import interruptions from "./real/interruptions.mjs";
import manage from "./real/manage.mjs";
import runs from "./real/runs.mjs";
import session from "./real/session.mjs";
import { cookieOf, startWorld } from "./real/world.mjs";
import { runJourneys } from "./runner.mjs";

const TIMEOUT_MS = 60_000;
const wanted = process.argv[2];

/** Runs journeys with an engine that they share. */
async function withEngine(journeys, more) {
  const { engine, orders, close } = await startWorld();
  const cookie = () => cookieOf(engine.origin, engine.key);
  const world = async () => {
    // A journey that failed may have left it stopped.
    if (!engine.isRunning()) await engine.start();
    return { server: engine, engine, orders, cookieOf: (key) => cookieOf(engine.origin, key) };
  };
  const failures = await runJourneys(journeys, { world, options: { timeout: TIMEOUT_MS, cookie }, wanted, ...more });
  await close();
  return failures;
}

const failures = await Promise.all([
  withEngine({ ...session, ...runs, ...manage, ...browser }),
  // These stop the engine, so each has it for itself.
  withEngine(interruptions, { atOnce: 1 }),
  runJourneys(hosted, { world: async () => ({}), options: { timeout: TIMEOUT_MS }, wanted, atOnce: 1 }),
]);
const sum = failures.reduce((total, count) => total + count, 0);
console.log(sum ? `${sum} journeys failed` : "all journeys passed");
process.exitCode = sum ? 1 : 0;
