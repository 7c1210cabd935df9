import { request as send } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { chartFolder } from '../../helm/tools/render.ts';
import { archivedCondition } from '../../src/controllers/archive/archive-status.ts';
import { Window } from '../browser/support/browser.ts';
import { steps } from '../browser/support/steps.ts';
import { eventually } from '../support/eventually.ts';
import { AlternatingFront } from './support/alternating-front.ts';
import { closeServer } from './support/closed-server.ts';
import { apply, kubectl } from './support/cluster.ts';
import { startIdentityOfCluster, type IdentityOfCluster } from './support/identity-pod.ts';
import {
  agentImage,
  chartValues,
  helm,
  readFacts,
  release,
  report,
  type ValuesOptions,
} from './support/installation.ts';
import { podsThatReach, selected } from './support/network-policies.ts';
import { PortForward } from './support/port-forward.ts';
import { startS3OfCluster, type S3OfCluster } from './support/s3-pod.ts';

const facts = readFacts();
const { namespace, sandboxes, tools } = facts;
const host = 'people.test';
const url = `https://${host}`;
const bucket = 'people';
/** Names of the Secrets and the ConfigMap of this part. */
const [secret, trust, credentials] = ['e2e-sign-in', 'e2e-trust', 'e2e-people'];
const recheckSeconds = 60;
/** Maximum age of a share in a gateway after its revocation. */
const revocationMs = 5_000;

const rule = (value: string, role: string) => ({ claim: 'groups', value, role });
const account = (name: string, group: string) => ({
  password: `The password of ${name}`,
  name,
  groups: [group],
});
const accounts = {
  alice: account('Alice Example', 'platform'),
  bob: account('Bob Example', 'developers'),
  vera: account('Vera Example', 'auditors'),
  dora: account('Dora Example', 'developers'),
};

const k = (args: string) => kubectl(`--namespace ${sandboxes} ${args}`);
const gateways = () =>
  selected(namespace, {
    matchLabels: {
      'app.kubernetes.io/instance': release,
      'app.kubernetes.io/component': 'gateway',
    },
  });

async function upgrade(values: Partial<ValuesOptions>): Promise<void> {
  const before = await gateways();
  await helm(
    [
      ...['upgrade', release, chartFolder, '--namespace', namespace],
      ...['--wait', '--timeout', '180s'],
    ],
    chartValues({ ...facts, ...values }),
  );
  await eventually('the gateways of before to be gone', async () => {
    const now = await gateways();
    return !now.some((pod) => before.includes(pod));
  });
}

let identity: IdentityOfCluster;
let store: S3OfCluster;
let closed: AsyncDisposable;
let forwards: readonly PortForward[] = [];
let toIdentity: PortForward;
let front: AlternatingFront;
let alice: Window;
let bob: Window;
let vera: Window;
let dora: Window;
let reader: Window;
const windows: Window[] = [];
/** The window of the step. */
let shown: Window;

async function installIdentity(): Promise<void> {
  const { repository, tag } = agentImage();
  const image = `${repository}:${tag}`;
  [identity, store] = await Promise.all([
    startIdentityOfCluster({ namespace: tools, image, gatewayUrl: url, accounts }),
    startS3OfCluster(tools, image),
  ]);
  await store.newBucket(bucket);
  const trusted = (place: string) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: trust, namespace: place },
    data: { 'ca.crt': identity.authority.ca },
  });
  const aSecret = (name: string, stringData: object) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace },
    stringData,
  });
  await apply(
    trusted(namespace),
    trusted(sandboxes),
    aSecret(secret, { company: 'gateway-secret' }),
    aSecret(credentials, store.secret),
  );
  const issuer = {
    name: 'company',
    title: 'Example Inc.',
    issuer: identity.url,
    clientId: 'gateway',
    scopes: ['openid', 'profile', 'groups'],
    rules: [rule('platform', 'admin'), rule('developers', 'user'), rule('auditors', 'viewer')],
    recheckSeconds,
  };
  await upgrade({
    identity: { publicUrl: url, issuer, secret, trust },
    archive: { s3: { bucket, endpoint: store.url, secretName: credentials } },
  });
  closed = await closeServer(identity.target, [namespace]);
}

beforeAll(async () => {
  const begun = performance.now();
  await installIdentity();
  report('an identity provider', `${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const pods = await gateways();
  expect(pods).toHaveLength(2);
  forwards = await Promise.all(pods.map((pod) => PortForward.open(namespace, `pod/${pod}`, 3000)));
  toIdentity = await PortForward.open(tools, 'service/identity', 8080);
  front = await AlternatingFront.start(
    forwards.map((forward) => forward.url),
    identity.authority,
  );
}, 400_000);

afterAll(async () => {
  for (const window of windows) await window.close();
  await front.stop();
  for (const forward of [toIdentity, ...forwards]) forward.close();
  await k('delete conversation --all --wait');
  await upgrade({});
  await closed[Symbol.asyncDispose]();
  await identity[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await kubectl(
    `--namespace ${namespace} delete configmap/${trust} secret/${secret} secret/${credentials}`,
  );
  await k(`delete configmap/${trust}`);
}, 400_000);

/** A browser without cookies, for which the certificate of the private authority counts. */
async function openWindow(firstPicture: number): Promise<Window> {
  shown = await Window.open({
    firstPicture,
    rules: [
      `MAP ${host} ${front.host}`,
      `MAP ${new URL(identity.url).hostname} ${new URL(toIdentity.url).host}`,
    ],
    trustedKey: identity.keyHash,
  });
  windows.push(shown);
  return shown;
}

async function enter({ page }: Window, name: keyof typeof accounts): Promise<void> {
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password').fill(accounts[name].password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

async function signIn(name: keyof typeof accounts, firstPicture: number): Promise<Window> {
  const window = await openWindow(firstPicture);
  await window.page.goto(url);
  await window.page.getByRole('link', { name: 'Sign in with Example Inc.' }).click();
  await enter(window, name);
  await window.page.waitForURL(`${url}/`);
  return window;
}

const cookiesOf = async ({ page }: Window): Promise<string> =>
  (await page.context().cookies(url)).map(({ name, value }) => `${name}=${value}`).join('; ');

/** The answer of each replica to a request of a page that has these cookies. */
const call = (cookie: string, method: string, path: string, body?: object) =>
  Promise.all(
    forwards.map(async (forward) => {
      const request = send(`${forward.url}${path}`, {
        method,
        headers: {
          host,
          cookie,
          origin: url,
          'sec-fetch-site': 'same-origin',
          'content-type': 'application/json',
        },
      });
      const answer = new Promise<{ readonly status: number; readonly text: string }>(
        (resolve, reject) => {
          request.on('error', reject);
          request.on('response', (response) => {
            textOf(response).then(
              (text) => resolve({ status: response.statusCode ?? 0, text }),
              reject,
            );
          });
        },
      );
      request.end(body === undefined ? undefined : JSON.stringify(body));
      return answer;
    }),
  );
const statuses = async (...request: Parameters<typeof call>) =>
  (await call(...request)).map(({ status }) => status);
const eventsOf = (id: string) => `/api/v1/conversation/${id}/events/search?limit=100`;

const step = steps(() => shown);
const dialog = (name: string) => alice.page.getByRole('dialog', { name });
const within = (name: string, button: string) =>
  dialog(name).getByRole('button', { name: button, exact: true });
const apples = 'Count apples';
const choose = async (item: string) => {
  await alice.page.getByRole('button', { name: `More for ${apples}` }).click();
  await alice.page.getByRole('button', { name: item }).click();
};
const saysApples = (window: Window) =>
  window.page.locator('.history').getByText('7 apples').first();

/** Starts a conversation at the page, and returns its id once the agent has answered. */
async function start({ page }: Window, title: string, answer: string): Promise<string> {
  await page.locator('#message').fill(`${title}\n\`\`\`sh\necho ${answer}\n\`\`\``);
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.getByRole('link', { name: title }).click();
  await page.locator('.history').getByText(answer).first().waitFor({ timeout: 120_000 });
  return new URL(page.url()).pathname.replace('/c/', '');
}

describe('people of a company, at two gateways in turn', () => {
  let ofAlice: string;
  let ofBob: string;
  let oldCookies: string;
  let removedAtMs: number;
  let link: string;

  step('reach their provider as the network policies say', async () => {
    expect(await podsThatReach(namespace, identity.target)).toEqual(await gateways());
    dora = await signIn('dora', 251);
    oldCookies = await cookiesOf(dora);
    expect(await statuses(oldCookies, 'GET', '/api/v1/users/me')).toEqual([200, 200]);
    // The last step looks at the consequences, which take a minute.
    await identity.setGroups('dora', ['marketing']);
    removedAtMs = performance.now();
  });

  step('see their own conversations and no others', async () => {
    alice = await signIn('alice', 261);
    bob = await signIn('bob', 271);
    [ofAlice, ofBob] = await Promise.all([
      start(alice, apples, '7 apples'),
      start(bob, 'Count pears', '8 pears'),
    ]);
    for (const [window, own, other] of [
      [alice, ofAlice, ofBob],
      [bob, ofBob, ofAlice],
    ] as const) {
      const cookies = await cookiesOf(window);
      for (const { text } of await call(cookies, 'GET', '/api/v1/app-conversations/search')) {
        expect(text).toContain(own);
        expect(text).not.toContain(other);
      }
      expect(await statuses(cookies, 'GET', eventsOf(own))).toEqual([200, 200]);
      expect(await statuses(cookies, 'GET', eventsOf(other))).toEqual([404, 404]);
      await window.page.goto(`${url}/c/${other}`);
      await window.page
        .getByRole('heading', { name: 'There is nothing at this address.' })
        .waitFor();
      await window.page.goto(url);
      await window.page.getByRole('listitem').filter({ hasText: /Count/ }).waitFor();
      await window.picture('own conversations');
      window.faults();
    }
  });

  step('see the state of the service as admins alone', async () => {
    const overview = '/api/v1/admin/overview';
    await alice.page.goto(`${url}/operate`);
    await alice.page.getByRole('heading', { name: 'Quotas' }).waitFor();
    await alice.picture('operate');
    expect(await statuses(await cookiesOf(alice), 'GET', overview)).toEqual([200, 200]);
    shown = bob;
    await bob.page.goto(`${url}/operate`);
    await bob.page.getByRole('heading', { name: 'This page is for admins' }).waitFor();
    expect(await statuses(await cookiesOf(bob), 'GET', overview)).toEqual([403, 403]);
    expect(alice.faults()).toEqual([]);
    bob.faults();
  });

  step('read and do nothing as viewers, and sign out at the provider too', async () => {
    vera = await signIn('vera', 281);
    const { page } = vera;
    await page.getByText('You may read only.').first().waitFor();
    expect(await page.locator('#message').count()).toBe(0);
    await vera.picture('a viewer');
    const cookies = await cookiesOf(vera);
    expect(await statuses(cookies, 'GET', '/api/v1/app-conversations/search')).toEqual([200, 200]);
    for (const { status, text } of await call(cookies, 'POST', '/api/v1/app-conversations', {})) {
      expect(status).toBe(403);
      expect(text).toContain('insufficient-scope');
    }
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL((there) => there.origin === identity.url);
    await page.getByRole('button', { name: /yes/i }).click();
    await page.waitForURL(`${url}/login**`);
    expect(await statuses(cookies, 'GET', '/api/v1/users/me')).toEqual([401, 401]);
    await page.getByRole('link', { name: 'Sign in with Example Inc.' }).click();
    await page.getByLabel('Password').waitFor();
    vera.faults();
  });

  step(
    'share a paused conversation, which a private window reads and does not resume',
    async () => {
      shown = alice;
      const { page } = alice;
      await page.goto(`${url}/c/${ofAlice}`);
      await page.getByRole('button', { name: `Pause: ${apples}` }).click();
      await page.getByText('Paused').first().waitFor();
      const archived = `jsonpath={.status.conditions[?(@.type=="${archivedCondition}")].reason}`;
      await k(`wait conversation/${ofAlice} --for=${archived}=Complete --timeout=60s`);
      const sandbox = await k(`get conversation ${ofAlice} -o jsonpath={.status.sandboxName}`);
      await k(`wait pod/${sandbox} --for=delete --timeout=60s`);
      await choose('Share…');
      await within('Share', 'Create the link').click();
      link = await dialog('Share').getByRole('textbox', { name: 'The link' }).inputValue();
      await within('Share', 'Close').click();
      expect(alice.faults()).toEqual([]);
      reader = await openWindow(291);
      await reader.page.goto(link);
      await saysApples(reader).waitFor();
      for (const name of ['Message', 'Pause', 'Resume', 'More for'])
        expect(await reader.page.getByLabel(name).count()).toBe(0);
      expect(await reader.page.context().cookies()).toEqual([]);
      for (const tab of ['Changes', 'Files', 'Life']) {
        await reader.page.getByRole('tab', { name: tab }).click();
        await reader.page.getByRole('tabpanel', { name: tab }).waitFor();
      }
      await reader.page.getByRole('tab', { name: 'Events' }).click();
      expect(await k(`get sandbox ${sandbox} -o jsonpath={.spec.replicas}`)).toBe('0');
      expect(await k(`get pod ${sandbox} --ignore-not-found -o name`)).toBe('');
      reader.faults();
    },
  );

  step('revoke it, at both gateways within seconds', async () => {
    const path = `/api/v1/shared/${new URL(link).pathname.replace('/shared/', '')}/conversation`;
    expect(await statuses('', 'GET', path)).toEqual([200, 200]);
    await choose('Share…');
    await within('Share', 'Revoke Anyone who has the link').click();
    await within('Share', 'Revoke').click();
    const begun = performance.now();
    await eventually(
      'the link to open nothing',
      async () => (await statuses('', 'GET', path)).every((status) => status === 404),
      revocationMs,
    );
    report('a share revoked at both', `${((performance.now() - begun) / 1000).toFixed(1)} s`);
    await within('Share', 'Close').click();
    await reader.page.getByText('This link no longer opens anything.').waitFor();
    reader.faults();
  });

  step('hand it over: one offers, the other one accepts and has it', async () => {
    await choose('Hand over…');
    await dialog('Hand over').getByLabel('To whom').fill('company:bob');
    await within('Hand over', 'Offer…').click();
    await within('Hand over', 'Offer').click();
    await dialog('Hand over').getByText('Offered to company:bob').waitFor();
    await alice.picture('offered');
    expect(alice.faults()).toEqual([]);
    shown = bob;
    const { page } = bob;
    await page.goto(url);
    const offers = page.getByRole('region', { name: 'Offered to you' });
    await offers.getByText('from company:alice').click();
    await bob.picture('an offer', { fullPage: true });
    const begun = performance.now();
    await offers.getByRole('button', { name: 'Accept' }).click();
    await offers.getByRole('button', { name: 'Accept', exact: true }).click();
    await offers.getByRole('link', { name: 'Open it' }).click();
    await saysApples(bob).waitFor();
    report('a handover', `${((performance.now() - begun) / 1000).toFixed(1)} s`);
    expect(await k(`get conversation ${ofAlice} -o jsonpath={.spec.owner}`)).toBe('company:bob');
  });

  step('then the former owner reads nothing of it', async () => {
    shown = alice;
    const cookies = await cookiesOf(alice);
    expect(await statuses(cookies, 'GET', eventsOf(ofAlice))).toEqual([404, 404]);
    for (const { text } of await call(cookies, 'GET', '/api/v1/app-conversations/search'))
      expect(text).not.toContain(ofAlice);
    expect(await statuses(await cookiesOf(bob), 'GET', eventsOf(ofAlice))).toEqual([200, 200]);
    await alice.page.goto(`${url}/c/${ofAlice}`);
    await alice.page.getByRole('heading', { name: 'was handed over to company:bob.' }).waitFor();
    alice.faults();
  });

  step(
    'lose the session and the open page once the provider has taken the group away',
    async () => {
      shown = dora;
      await dora.page
        .getByText('no rule of this service gives your account a role')
        .waitFor({ timeout: (recheckSeconds + 60) * 1000 });
      report(
        'a removal from a group',
        `${((performance.now() - removedAtMs) / 1000).toFixed(0)} s`,
      );
      await dora.picture('a person without a group');
      expect(await statuses(oldCookies, 'GET', '/api/v1/users/me')).toEqual([401, 401]);
      dora.faults();
      await dora.page.goto(url);
      await dora.page.waitForURL(`${url}/login**`);
    },
  );

  it('had about half of the requests at each gateway', () => {
    const [one = 0, other = 0] = front.served;
    expect(one).toBeGreaterThan(20);
    expect(Math.abs(one - other)).toBeLessThanOrEqual(2);
  });
});
