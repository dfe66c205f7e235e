// An OpenID provider with its own pages, whose people are `NAME@corp.example`: node oidc.mjs NPM ALGORITHM METHOD CLAIMS
// NPM is the folder of the installed packages.
// METHOD is the client's authentication. CLAIMS is `token` where the ID token has the address, or `userinfo`.
import crypto from 'node:crypto';
import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [npm, algorithm, method, claims] = process.argv.slice(2);
const require = createRequire(`${npm}/`);
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));

// Node 20 hangs now and then when it exports a new key as JWK. A key that it has read from PEM is exported each time.
const privateKeyEncoding = { type: 'pkcs8', format: 'pem' };
const key = (type, options, kid) => {
  const { privateKey } = crypto.generateKeyPairSync(type, { ...options, privateKeyEncoding });
  return { ...crypto.createPrivateKey(privateKey).export({ format: 'jwk' }), kid, use: 'sig' };
};
const server = http.createServer();
await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
const { port } = server.address();
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'sortie',
    client_secret: 'secret:with/odd+signs',
    redirect_uris: ['https://accounts.example/sign-in/oidc/idp/callback'],
    grant_types: ['authorization_code'],
    id_token_signed_response_alg: algorithm,
    token_endpoint_auth_method: method,
  }],
  clientAuthMethods: [method],
  enabledJWA: { idTokenSigningAlgValues: [algorithm] },
  jwks: { keys: [key('rsa', { modulusLength: 2048 }, 'rsa'), key('ec', { namedCurve: 'P-256' }, 'ec')] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  conformIdTokenClaims: claims === 'userinfo',
  pkce: { required: () => true },
  findAccount: (_ctx, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, email: `${id}@corp.example`, email_verified: true, name: `Name of ${id}` }),
  }),
});
server.on('request', provider.callback());
console.log(JSON.stringify({ issuer: provider.issuer }));
