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
let alice: Window;
let bob: Window;
let shared: Window;
const folder = mkdtempSync(join(tmpdir(), 'people-'));

beforeAll(async () => {
  const groups = ['developers'];
  provider = await OidcProvider.start({
    alice: { password: 'a-password', name: 'Alice Example', groups },
    bob: { password: 'b-password', name: 'Bob Example', groups },
  });
  const issuer = {
    name: 'company',
    title: 'Example Inc.',
    issuer: provider.url,
    clientId: 'gateway',
    scopes: ['openid', 'profile', 'groups'],
    rules: [{ claim: 'groups', value: 'developers', role: 'user' }],
  };
  writeFileSync(join(folder, 'sign-in.yaml'), JSON.stringify({ issuers: [issuer] }));
  writeFileSync(join(folder, 'company'), 'gateway-secret\n');
  up = await Installation.start({
    env: { SIGN_IN_FILE: join(folder, 'sign-in.yaml'), SIGN_IN_SECRETS_DIR: folder },
  });
  provider.serveClient(up.url);
  alice = await Window.open({ firstPicture: 221 });
  bob = await Window.open({ firstPicture: 231 });
  shared = await Window.open({ firstPicture: 241 });
});
afterAll(async () => {
  for (const window of [alice, bob, shared]) await window.close();
  await up.stop();
  await provider.stop();
  rmSync(folder, { recursive: true });
});

const step = steps(() => alice);

async function signIn({ page }: Window, name: string): Promise<void> {
  await page.goto(up.url);
  await page.getByRole('link', { name: 'Sign in with Example Inc.' }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password').fill(`${name[0] ?? ''}-password`);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${up.url}/`);
}

const title = 'Count apples';
const choose = async ({ page }: Window, item: string) => {
  await page.getByRole('button', { name: `More for ${title}` }).click();
  await page.getByRole('button', { name: item }).click();
};
const dialog = (name: string) => alice.page.getByRole('dialog', { name });
const within = (name: string, button: string) =>
  dialog(name).getByRole('button', { name: button, exact: true });
const share = async (fill: () => Promise<void>): Promise<string> => {
  await choose(alice, 'Share…');
  await fill();
  await within('Share', 'Create the link').click();
  const url = await dialog('Share').getByRole('textbox', { name: 'The link' }).inputValue();
  await within('Share', 'Close').click();
  return url;
};
const says = (window: Window) => window.page.locator('.history').getByText('7 apples').first();
const phone = { width: 360, height: 800 };
const wide = { width: 1280, height: 800 };

describe('Two people of a company', () => {
  let link = '';

  step('sign in, and one starts a conversation', async () => {
    await signIn(alice, 'alice');
    await signIn(bob, 'bob');
    const { page } = alice;
    await page.locator('#message').fill(`${title}\n\`\`\`sh\necho 7 apples\n\`\`\``);
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByRole('link', { name: title }).click();
    await says(alice).waitFor();
  });

  step('share it by a link that opens in a private window, for reading', async () => {
    link = await share(() => Promise.resolve());
    const { page } = shared;
    await page.goto(link);
    await says(shared).waitFor();
    for (const name of ['Message', 'Pause', 'More for'])
      expect(await page.getByLabel(name).count()).toBe(0);
    for (const [size, viewport] of Object.entries({ phone, wide })) {
      await page.setViewportSize(viewport);
      await shared.picture(`shared ${size}`);
      expect(await violationsIn(page)).toEqual([]);
    }
    expect(shared.faults()).toEqual([]);
  });

  step('revoke it, and the window that is open says so', async () => {
    await choose(alice, 'Share…');
    await within('Share', 'Revoke Anyone who has the link').click();
    await within('Share', 'Revoke').click();
    await dialog('Share').getByText('Nobody but you.').waitFor();
    await within('Share', 'Close').click();
    await shared.page.getByText('This link no longer opens anything.').waitFor({ timeout: 15_000 });
    await shared.picture('revoked');
    shared.faults();
  });

  step('share it with the other one alone', async () => {
    link = await share(async () => {
      await dialog('Share').getByRole('combobox', { name: 'Who' }).selectOption('One person');
      await dialog('Share').getByRole('textbox', { name: 'Owner' }).fill('company:bob');
    });
    await shared.page.goto(link);
    await shared.page.getByRole('link', { name: 'sign in' }).waitFor();
    shared.faults();
    await bob.page.goto(link);
    await says(bob).waitFor();
    expect(bob.faults()).toEqual([]);
  });

  step('read which groups there are where one is not known', async () => {
    await choose(alice, 'Share…');
    await dialog('Share').getByRole('combobox', { name: 'Who' }).selectOption('A group');
    await dialog('Share').getByRole('textbox', { name: 'Group' }).fill('company:nobody');
    await within('Share', 'Create the link').click();
    await dialog('Share').getByText('company:developers').waitFor();
    await within('Share', 'Close').click();
    alice.faults();
  });

  step('hand it over: one offers, after a question', async () => {
    await choose(alice, 'Hand over…');
    await dialog('Hand over').getByLabel('To whom').fill('company:bob');
    await within('Hand over', 'Offer…').click();
    await within('Hand over', 'Offer').click();
    await dialog('Hand over').getByText('Offered to company:bob').waitFor();
    expect(await violationsIn(alice.page)).toEqual([]);
    await within('Hand over', 'Close').click();
    await alice.page.locator('.task-dialog').waitFor({ state: 'detached' });
    await alice.page.getByText('Offered to company:bob, who has not answered.').waitFor();
  });

  step('the other one reads the whole offer and accepts it, and has it, paused', async () => {
    const { page } = bob;
    await page.goto(up.url);
    const offers = page.getByRole('region', { name: 'Offered to you' });
    await offers.getByText('from company:alice').click();
    for (const [size, viewport] of Object.entries({ phone, wide })) {
      await page.setViewportSize(viewport);
      await bob.picture(`offer ${size}`, { fullPage: true });
      expect(await violationsIn(page)).toEqual([]);
    }
    await offers.getByRole('button', { name: 'Accept' }).click();
    await offers.getByRole('button', { name: 'Accept', exact: true }).click();
    await offers.getByRole('link', { name: 'Open it' }).waitFor();
    await bob.picture('accepted');
    const { page: former } = alice;
    await former
      .getByRole('heading', { name: `“${title}” was handed over to company:bob.` })
      .waitFor();
    await offers.getByRole('link', { name: 'Open it' }).click();
    await says(bob).waitFor();
    await page.getByText('Paused').first().waitFor();
    await bob.picture('taken over');
    expect(bob.faults()).toEqual([]);
    alice.faults();
  });

  step('then the former owner reads nothing of it, and the link opens nothing', async () => {
    const { page } = alice;
    const { pathname } = new URL(bob.page.url());
    await page.goto(`${up.url}${pathname}`);
    await page.getByRole('heading', { name: 'was handed over to company:bob.' }).waitFor();
    await page.goto(link);
    await page.getByText('This link opens nothing').waitFor();
    alice.faults();
    await page.goto(up.url);
    await page.getByText('There are no conversations yet.').waitFor();
  });

  step('and the new one resumes it and goes on', async () => {
    const { page } = bob;
    await page.getByLabel('Message').fill('Count pears:\n```sh\necho 8 pears\n```');
    await page.getByRole('button', { name: 'Send' }).click();
    await page
      .locator('pre', { hasText: /^8 pears/ })
      .first()
      .waitFor({ state: 'attached' });
    await bob.picture('goes on');
    expect(bob.faults()).toEqual([]);
  });
});
