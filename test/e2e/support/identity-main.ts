// Runs in the cluster, bundled into one file: the identity provider of a company.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { z } from 'zod';
import { OidcProvider } from '../../support/oidc-provider.ts';

const text = (name: string) => readFileSync(`/settings/${name}`, 'utf8');
const groupsSchema = z.array(z.string());
const accountsSchema = z.record(
  z.string(),
  z.object({ password: z.string(), name: z.string(), groups: groupsSchema }),
);
const { url, gatewayUrl, accounts } = z
  .object({ url: z.string(), gatewayUrl: z.string(), accounts: accountsSchema })
  .parse(JSON.parse(text('settings.json')));

const provider = await OidcProvider.start(accounts, {
  url,
  port: 8080,
  cert: text('tls.crt'),
  key: text('tls.key'),
});
provider.serveClient(gatewayUrl);

// In the pod alone: other groups of an account, as an administrator of the company sets them.
createServer((request, response) => {
  void (async () => {
    const account = provider.accounts.get((request.url ?? '').slice(1));
    if (account === undefined) throw new Error('there is no such account');
    account.groups = groupsSchema.parse(JSON.parse(await textOf(request)));
    response.end();
  })().catch((error: unknown) => response.writeHead(400).end(String(error)));
}).listen(8081, '127.0.0.1');
