// Drives Chromium through the console of the real binary: node test/real.mjs [NAME]
//
// On SQLite, or journeys 1 to 9 on the server of SORTIE_TEST_POSTGRES_URL: the others do not depend on the database. A journey
// has the number of the design.
import browser from "./real/browser.mjs";
import hosted from "./real/hosted.mjs";
import interruptions from "./real/interruptions.mjs";
import manage from "./real/manage.mjs";
import runs from "./real/runs.mjs";
import session from "./real/session.mjs";
import { cookieOf, startWorld } from "./real/world.mjs";
import { runJourneys } from "./runner.mjs";

const TIMEOUT_MS = 60_000;

const shared = await startWorld();
const fieldsOf = ({ engine, orders, close }) => ({
  server: engine,
  engine,
  orders,
  close,
  cookieOf: (key) => cookieOf(engine.origin, key),
});

/** The longest come first. */
const all = { ...hosted, ...interruptions, ...runs, ...browser, ...manage, ...session };
const isWanted = ([name]) => !process.env.SORTIE_TEST_POSTGRES_URL || Number.parseInt(name, 10) < 10;
const failures = await runJourneys(Object.fromEntries(Object.entries(all).filter(isWanted)), {
  // A journey that stops the engine has one for itself. It gives runs the time to end.
  world: async (name) =>
    fieldsOf(
      name in interruptions
        ? await startWorld({ env: { SORTIE_SHUTDOWN_GRACE_SECONDS: "60" } })
        : { ...shared, close: undefined },
    ),
  options: { timeout: TIMEOUT_MS, cookie: ({ origin, key }) => cookieOf(origin, key) },
  wanted: process.argv[2],
});
await shared.close();
console.log(failures ? `${failures} journeys failed` : "all journeys passed");
process.exitCode = failures ? 1 : 0;
