#!/usr/bin/env node
// Runs the program of the package for this platform with the same arguments, streams, signals and exit code.
'use strict';

const { spawn } = require('node:child_process');
const { constants } = require('node:os');

const platform = `sortie-server-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/sortie`);
} catch {
  console.error(
    `sortie: cannot find the package ${platform}: Sortie runs on Linux with glibc, on x64 and arm64. ` +
      'On such a machine, install sortie-server with its optional dependencies.',
  );
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });

// A terminal sends Ctrl-C and Ctrl-\ to this process and to the program. A second one would interrupt the program twice.
const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
for (const signal of ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2']) {
  const both = terminal && (signal === 'SIGINT' || signal === 'SIGQUIT');
  process.on(signal, () => both || child.kill(signal));
}

child.on('error', (error) => {
  console.error(`sortie: cannot start ${program}: ${error.message}`);
  process.exitCode = 1;
});
child.on('exit', (code, signal) => {
  if (signal === null) {
    process.exitCode = code;
    return;
  }
  // The caller sees the same signal. Where Node cannot die of it, the exit code is that of a shell.
  process.exitCode = 128 + constants.signals[signal];
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
