// The server stripe-stateful-mock: node stateful_mock.cjs NPM PORT, where NPM is the folder of the installed packages.
const { createRequire } = require('node:module');

const [npm, port] = process.argv.slice(2);
const { createExpressApp } = createRequire(`${npm}/`)('stripe-stateful-mock');
createExpressApp().listen(Number(port), '127.0.0.1');
