// An OpenID provider that registers clients by itself and whose only user agrees to everything: node oidc.mjs PORT RESOURCE
import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(`${process.env.PEERS_NPM}/`);
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));

const [port, resource] = [Number(process.argv[2]), process.argv[3]];
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'confidential',
    client_secret: 'oidc-client-secret:with/odd+signs',
    redirect_uris: ['http://127.0.0.1/v1/oauth/callback'],
    application_type: 'native',
    grant_types: ['authorization_code', 'refresh_token'],
  }],
  scopes: ['openid', 'offline_access', 'read'],
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_ctx, indicator) => {
        if (indicator !== resource) throw new Error(`unknown resource ${indicator}`);
        return { scope: 'read', audience: indicator, accessTokenFormat: 'jwt', accessTokenTTL: 600 };
      },
    },
  },
  rotateRefreshToken: true,
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
});

async function agree(req, res) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(req, res);
  if (prompt.name === 'login') {
    return provider.interactionFinished(req, res, { login: { accountId: 'ann' } });
  }
  const grant = (grantId && await provider.Grant.find(grantId))
    ?? new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(' '));
  for (const [indicator, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(indicator, scopes.join(' '));
  }
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } });
}

const handle = provider.callback();
http.createServer((req, res) => {
  if (!req.url.startsWith('/interaction/')) return handle(req, res);
  return agree(req, res).catch((error) => { res.statusCode = 500; res.end(String(error)); });
}).listen(port, '127.0.0.1', () => console.log('listening'));
