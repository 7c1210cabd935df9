import { SignInBrowser } from '../support/gateway/sign-in-browser.ts';
import { TestIssuer } from '../support/gateway/test-issuer.ts';
import { startApiServer } from './api-server.ts';
import { startChild, type Child } from './child.ts';
import { report } from './figure.ts';

/** The memory that the sessions of people take of a gateway at which they have signed in. */
const count = Number(process.env['SESSIONS'] ?? 1_000);
const warmUp = 50;
const mebibyte = 1024 * 1024;

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
const issuer = await TestIssuer.start();
stack.defer(() => issuer.stop());
const gateway = startChild('sessions-gateway.ts', [server.kubeconfig, issuer.url], ['--expose-gc']);
stack.defer(() => gateway.close());
const url = `http://127.0.0.1:${await gateway.line()}`;

/** A person signs in at the provider, and uses the session. */
async function signIn(sub: string): Promise<void> {
  issuer.person = { sub, name: `Person ${sub}`, groups: ['developers'] };
  const browser = new SignInBrowser();
  await browser.open(new URL('/login/company?return_to=/docs', url));
  const { status } = await browser.visit(new URL('/api/v1/users/me', url), {
    headers: { origin: url, 'sec-fetch-site': 'same-origin' },
  });
  if (status !== 200) throw new Error(`the session of ${sub} answers ${status}`);
}

async function measure(child: Child): Promise<{ readonly live: number; readonly rss: number }> {
  process.kill(child.pid, 'SIGUSR2');
  return JSON.parse(await child.line()) as { readonly live: number; readonly rss: number };
}

// The first sign-ins load and compile code, and read the provider.
for (let index = 0; index < warmUp; index++) await signIn(`early-${index}`);
const before = await measure(gateway);
for (let index = 0; index < count; index++) await signIn(`person-${index}`);
const after = await measure(gateway);
const what = `of ${count.toLocaleString('en')} sessions of people`;
report({
  what: `gateway: heap and buffers ${what}`,
  value: (after.live - before.live) / mebibyte,
  unit: 'MiB',
  target: { atMost: 10 },
});
report({
  what: `gateway: more resident memory, with garbage, ${what}`,
  value: (after.rss - before.rss) / mebibyte,
  unit: 'MiB',
});
