import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Installation } from '../support/installation.ts';
import { OidcProvider } from '../support/oidc-provider.ts';
import { violationsIn } from './support/accessibility.ts';
import { Window } from './support/browser.ts';
import { steps } from './support/steps.ts';

let provider: OidcProvider;
let up: Installation;
let window: Window;
const folder = mkdtempSync(join(tmpdir(), 'sign-in-'));
const recheckSeconds = 60;

beforeAll(async () => {
  provider = await OidcProvider.start({
    alice: { password: 'a-password', name: 'Alice Example', groups: ['platform'] },
    vera: { password: 'v-password', name: 'Vera Example', groups: ['auditors'] },
    dora: { password: 'd-password', name: 'Dora Example', groups: ['developers'] },
  });
  const rule = (value: string, role: string) => ({ claim: 'groups', value, role });
  const issuer = {
    name: 'company',
    title: 'Example Inc.',
    issuer: provider.url,
    clientId: 'gateway',
    scopes: ['openid', 'profile', 'groups'],
    rules: [rule('platform', 'admin'), rule('developers', 'user'), rule('auditors', 'viewer')],
    recheckSeconds,
  };
  writeFileSync(join(folder, 'sign-in.yaml'), JSON.stringify({ issuers: [issuer] }));
  writeFileSync(join(folder, 'company'), 'gateway-secret\n');
  up = await Installation.start({
    env: { SIGN_IN_FILE: join(folder, 'sign-in.yaml'), SIGN_IN_SECRETS_DIR: folder },
  });
  provider.serveClient(up.url);
  window = await Window.open({ firstPicture: 181 });
});
afterAll(async () => {
  await window.close();
  await up.stop();
  await provider.stop();
  rmSync(folder, { recursive: true });
});

const step = steps(() => window);

async function signInAs(name: string, password: string): Promise<void> {
  const { page } = window;
  await page.getByRole('link', { name: 'Sign in with Example Inc.' }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

const signOut = async () => {
  const { page } = window;
  await page.getByRole('button', { name: 'Sign out' }).click();
  // The provider asks whether its own session ends too.
  await page.waitForURL((url) => url.origin === provider.url);
  await page.getByRole('button', { name: /yes/i }).click();
  await page.waitForURL(`${up.url}/login**`);
};

describe('People of a company', () => {
  step('come to the sign-in, with the button of their provider', async () => {
    const { page } = window;
    await page.goto(`${up.url}/account`);
    await page.waitForURL(`${up.url}/login?return_to=%2Faccount`);
    expect(await violationsIn(page)).toEqual([]);
  });

  step('see their name and owner, and as admins the state of the service', async () => {
    const { page } = window;
    await signInAs('alice', 'a-password');
    await page.waitForURL(`${up.url}/account`);
    await page.getByText('Signed in as Alice Example, owner company:alice').waitFor();
    await page.goto(`${up.url}/operate`);
    await page.getByRole('heading', { name: 'Quotas' }).waitFor();
  });

  step('let a program in by the code that it shows', async () => {
    const { page } = window;
    const call = async (path: string, body: string | URLSearchParams) => {
      const answer = await fetch(`${up.url}${path}`, {
        method: 'POST',
        headers: { 'user-agent': 'a-program/1.0' },
        body,
      });
      return (await answer.json()) as Readonly<Record<string, string>>;
    };
    const login = await call('/oauth/device/authorize', '');
    await page.goto(login['verification_uri_complete'] ?? '');
    await page.getByText('a-program/1.0').waitFor();
    expect(await violationsIn(page)).toEqual([]);
    await window.picture('a program asks to be let in');
    await page.getByLabel('Its key opens').selectOption('read');
    await page.getByRole('button', { name: 'Allow' }).click();
    await page.getByRole('heading', { name: 'The program has its key.' }).waitFor();
    const { access_token: key } = await call(
      '/oauth/device/token',
      new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
        device_code: login['device_code'] ?? '',
      }),
    );
    const me = await fetch(`${up.url}/api/v1/users/me`, {
      headers: { authorization: `Bearer ${key ?? ''}` },
    });
    expect(await me.json()).toMatchObject({ id: 'company:alice' });
    await page.goto(`${up.url}/`);
  });

  step('sign out here and there', async () => {
    await signOut();
    const { page } = window;
    await page.getByRole('link', { name: 'Sign in with Example Inc.' }).click();
    await page.getByLabel('Password').waitFor();
    await page.goto(`${up.url}/login`);
  });

  step('read only, as auditors', async () => {
    const { page } = window;
    await signInAs('vera', 'v-password');
    await page.waitForURL(`${up.url}/`);
    await page.getByText('You may read only.').first().waitFor();
    expect(await page.locator('#message').count()).toBe(0);
    await page.goto(`${up.url}/account`);
    await page.getByText('There is no secret.').waitFor();
    expect(await page.locator('main :is(button, input):enabled').count()).toBe(0);
    await window.picture('a person who may read only');
    expect(await violationsIn(page)).toEqual([]);
    await page.goto(`${up.url}/`);
    await signOut();
  });

  step(
    'lose the session and the open page where the provider has taken the group away',
    async () => {
      const { page } = window;
      await signInAs('dora', 'd-password');
      await page.waitForURL(`${up.url}/`);
      const dora = provider.accounts.get('dora');
      if (dora !== undefined) dora.groups = [];
      await page
        .getByText('no rule of this service gives your account a role')
        .waitFor({ timeout: (recheckSeconds + 60) * 1000 });
      window.faults();
      await page.goto(`${up.url}/`);
      await page.waitForURL(`${up.url}/login**`);
    },
  );
});
