// Drives Chromium through the console on fixed data, for what an engine does not show at will: node test/journeys.mjs [NAME]
import { startServer } from "./server.mjs";
import { runJourneys } from "./runner.mjs";
import manage from "./journeys/manage.mjs";
import run from "./journeys/run.mjs";
import runs from "./journeys/runs.mjs";
import session from "./journeys/session.mjs";

async function world() {
  const servers = [await startServer()];
  return {
    server: servers[0],
    serve: async (options) => {
      servers.push(await startServer(options));
      return servers.at(-1);
    },
    close: () => {
      for (const one of servers) one.close();
    },
  };
}

const failures = await runJourneys({ ...session, ...runs, ...run, ...manage }, { world, wanted: process.argv[2] });
console.log(failures ? `${failures} journeys failed` : "all journeys passed");
process.exitCode = failures ? 1 : 0;
